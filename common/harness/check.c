#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_wide(enum tensor_type type)
{
    return tensor_element_bytes(type) == sizeof(uint32_t);
}

/* A NaN is quiet when the highest bit of its mantissa is set. Which bit that is depends on the
 * type. */
static uint32_t quiet_bit(enum tensor_type type)
{
    static const uint32_t bit[TENSOR_TYPES] = {
        [TENSOR_F32] = 0x00400000, [TENSOR_F16] = 0x02000200, [TENSOR_BF16] = 0x00400040};
    return bit[type];
}

uint32_t check_poison(enum tensor_type type, int array)
{
    static const uint32_t poison[TENSOR_TYPES] = {[TENSOR_F32] = 0xffbfa500,
                                                  [TENSOR_F16] = 0xfda0fda0,
                                                  [TENSOR_BF16] = 0xffa0ffa0,
                                                  [TENSOR_I32] = 0x80bfa500};
    const uint32_t number = (uint32_t)array;
    return poison[type] | (is_wide(type) ? number : number << 16 | number);
}

static uint32_t bits_of(const void *data, enum tensor_type type, size_t index)
{
    uint16_t narrow;
    uint32_t wide;
    if (is_wide(type)) {
        memcpy(&wide, (const uint32_t *)data + index, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const uint16_t *)data + index, sizeof narrow);
    return (uint32_t)narrow << 16 | narrow;
}

bool check_is_poison(const void *data, enum tensor_type type, size_t index, int array)
{
    return bits_of(data, type, index) == check_poison(type, array);
}

bool check_comes_from(const void *data, enum tensor_type type, size_t index, int array)
{
    static const uint32_t sign[TENSOR_TYPES] = {
        [TENSOR_F32] = 0x80000000, [TENSOR_F16] = 0x80008000, [TENSOR_BF16] = 0x80008000};
    /* The CPU backend fills shared memory with this. Of 16 bits it is what any NaN becomes that is
     * rounded to them. */
    const uint32_t shared = 0x7fff7fff;
    const bool of_shared = array == POISON_OF_SHARED_MEMORY;
    if (type == TENSOR_I32 || (of_shared && !is_wide(type)))
        return false;
    const uint32_t from = of_shared ? shared : check_poison(type, array) | quiet_bit(type);
    return ((bits_of(data, type, index) ^ from) & ~sign[type]) == 0;
}

size_t check_unwritten(const void *data, enum tensor_type type, size_t count, int array)
{
    for (size_t index = 0; index < count; index++)
        if (check_is_poison(data, type, index, array))
            return index;
    return count;
}

static double element_error(double out, double value, double scale)
{
    if (isnan(value))
        return isnan(out) ? 0.0 : INFINITY;
    if (isinf(value))
        return out == value ? 0.0 : INFINITY;
    return fabs(out - value) / scale;
}

void check_compare(struct comparison *comparison, const struct tensor *tensor, const void *data,
                   size_t first, size_t count, const double *value, const double *scale)
{
    for (size_t i = 0; i < count; i++) {
        const double out = tensor_element(data, tensor->type, first + i);
        const double error = element_error(out, value[i], scale[i]);
        if (!(error <= comparison->error)) /* true for a NaN as well */
            comparison->error = error;
        if (!(error <= comparison->bound) && !comparison->wrong) {
            comparison->wrong = true;
            snprintf(comparison->first, sizeof comparison->first,
                     "%s[%zu][%zu] is %.9g, should be %.9g", tensor->name,
                     (first + i) / tensor->cols, (first + i) % tensor->cols, out, value[i]);
        }
    }
}
