#include "problem.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const tensor_type_names[TENSOR_TYPES + 1] = {
    [TENSOR_F32] = "f32", [TENSOR_F16] = "f16", [TENSOR_BF16] = "bf16", [TENSOR_I32] = "i32"};

size_t tensor_element_bytes(enum tensor_type type)
{
    return type == TENSOR_F16 || type == TENSOR_BF16 ? sizeof(uint16_t) : sizeof(float);
}

double tensor_roundoff(enum tensor_type type)
{
    return type == TENSOR_F16 ? 0x1p-11 : type == TENSOR_BF16 ? 0x1p-8 : UNIT_ROUNDOFF_F32;
}

double tensor_smallest_normal(enum tensor_type type)
{
    return type == TENSOR_F16 ? 0x1p-14 : FLT_MIN;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A half has 3 bits less of exponent and 13 less of fraction than a float; the biases differ by
 * 112. */
static double half_value(uint16_t bits)
{
    const float value = float_of((bits & 0x7fffu) << 13) * 0x1p112f;
    const uint32_t special = (bits & 0x7c00) == 0x7c00 ? 0x7f800000u : 0; /* infinity, NaN */
    uint32_t whole;
    memcpy(&whole, &value, sizeof whole);
    return float_of(whole | special | (bits & 0x8000u) << 16);
}

double tensor_element(const void *data, enum tensor_type type, size_t index)
{
    if (type == TENSOR_F32)
        return ((const float *)data)[index];
    if (type == TENSOR_I32)
        return ((const int32_t *)data)[index];
    const uint16_t bits = ((const uint16_t *)data)[index];
    return type == TENSOR_F16 ? half_value(bits) : float_of((uint32_t)bits << 16);
}

void tensor_elements(double *value, const void *data, enum tensor_type type, size_t first,
                     size_t count)
{
    const float *wide = (const float *)data + first;
    const uint16_t *narrow = (const uint16_t *)data + first;
    switch (type) {
    case TENSOR_F16:
        for (size_t i = 0; i < count; i++)
            value[i] = half_value(narrow[i]);
        break;
    case TENSOR_BF16:
        for (size_t i = 0; i < count; i++)
            value[i] = float_of((uint32_t)narrow[i] << 16);
        break;
    case TENSOR_F32:
        for (size_t i = 0; i < count; i++)
            value[i] = wide[i];
        break;
    default:
        for (size_t i = 0; i < count; i++)
            value[i] = tensor_element(data, type, first + i);
    }
}

/* Returns the bits of the nearest value of a 16-bit type. It keeps `stored` bits of fraction;
 * normal numbers begin at 2^lowest. */
static uint16_t bits_of(double x, int stored, int lowest)
{
    const double magnitude = fabs(x);
    const unsigned sign = signbit(x) ? 0x8000u : 0u;
    const unsigned infinity = 0x7fffu >> stored << stored;
    unsigned bits;
    if (isnan(x)) {
        bits = infinity | 1u << (stored - 1);
    } else if (magnitude >= ldexp(1.0, 2 - lowest)) {
        bits = infinity;
    } else {
        /* Where rounding carries a significand to the next power of two, the carry goes into the
         * exponent. */
        const int exponent = magnitude < ldexp(1.0, lowest) ? lowest : ilogb(magnitude);
        bits = ((unsigned)(exponent - lowest) << stored) +
               (unsigned)nearbyint(ldexp(magnitude, stored - exponent));
    }
    return (uint16_t)(sign | bits);
}

void tensor_store(void *data, enum tensor_type type, size_t index, double x)
{
    if (type == TENSOR_F32)
        ((float *)data)[index] = (float)x;
    else if (type == TENSOR_I32)
        ((int32_t *)data)[index] = (int32_t)lrint(x);
    else
        ((uint16_t *)data)[index] = type == TENSOR_F16 ? bits_of(x, 10, -14) : bits_of(x, 7, -126);
}

const char *problem_function(const struct problem *problem, const struct kernel *kernel)
{
    static char function[128];
    const char *last = strrchr(problem->name, '_');
    last = last ? last + 1 : problem->name;
    const bool twice = strncmp(kernel->name, last, strlen(last)) == 0 && last > problem->name &&
                       kernel->name[strlen(last)] == '_';
    snprintf(function, sizeof function, "%.*s%s%s",
             (int)(twice ? (size_t)(last - problem->name) : strlen(problem->name)), problem->name,
             twice ? "" : "_", kernel->name);
    return function;
}

const struct kernel *problem_kernel(const struct problem *problem, const void *table, size_t index)
{
    return (const struct kernel *)((const char *)table + index * problem->row_bytes);
}

size_t problem_workspace(const struct problem *problem, const struct kernel *kernel,
                         const long long sizes[MAX_SIZES])
{
    return problem->workspace ? problem->workspace(kernel, sizes) : 0;
}

void problem_inputs(const struct problem *problem, const long long sizes[MAX_SIZES],
                    enum input_kind kind, uint64_t seed, void *const *host)
{
    problem->inputs(sizes, kind, seed, host);
    if (problem->derive)
        problem->derive(sizes, host);
}

double roundings(double n)
{
    const double lambda = 6.0;
    return fmin(n, lambda * sqrt(n));
}
