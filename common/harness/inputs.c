#include "inputs.h"

#include <math.h>
#include <string.h>

static const char *const kind_names[INPUT_KINDS] = {
    [INPUTS_NORMAL] = "normal",         [INPUTS_UNIFORM] = "uniform",
    [INPUTS_LARGE] = "large",           [INPUTS_ASCENDING] = "ascending",
    [INPUTS_DESCENDING] = "descending", [INPUTS_OUTLIERS] = "outliers",
    [INPUTS_CONSTANT] = "constant",     [INPUTS_SPECIAL] = "special",
    [INPUTS_SUBNORMAL] = "subnormal",
};

const char *input_kind_name(enum input_kind kind)
{
    return kind_names[kind];
}

bool input_kind_find(const char *name, enum input_kind *kind)
{
    for (int candidate = 0; candidate < INPUT_KINDS; candidate++) {
        if (strcmp(kind_names[candidate], name) == 0) {
            *kind = (enum input_kind)candidate;
            return true;
        }
    }
    return false;
}

/* This is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
 * Generators, 2014). */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t input_bits(uint64_t seed, uint64_t stream, uint64_t index)
{
    const uint64_t golden = 0x9e3779b97f4a7c15u;
    return mix(mix(mix(seed + golden) + stream + golden) + index * golden);
}

double input_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (double)(input_bits(seed, stream, index) >> 11) * 0x1p-53;
}

double input_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    const double two_pi = 6.283185307179586;
    uint64_t bits = input_bits(seed, stream, index);
    double radius = ((double)(bits >> 32) + 0.5) * 0x1p-32; /* not 0: its logarithm is finite */
    double angle = (double)(bits & 0xffffffffu) * 0x1p-32;
    return sqrt(-2.0 * log(radius)) * cos(two_pi * angle);
}

double input_element(size_t row, size_t col, size_t cols, enum input_kind kind, uint64_t seed,
                     uint64_t stream)
{
    const size_t index = row * cols + col;
    const double along = cols > 1 ? (double)col / (double)(cols - 1) : 0.0;
    switch (kind) {
    case INPUTS_UNIFORM:
        return input_uniform(seed, stream, index);
    case INPUTS_LARGE: {
        const bool below = input_bits(seed, ~stream, row) % 2 == 0;
        return (below ? -1.0 : 1.0) * (120.0 + 80.0 * input_uniform(seed, stream, index));
    }
    case INPUTS_ASCENDING:
        return 20.0 * along + 0.1 * input_normal(seed, stream, index);
    case INPUTS_DESCENDING:
        return 20.0 * (1.0 - along) + 0.1 * input_normal(seed, stream, index);
    case INPUTS_OUTLIERS: {
        const bool planted = input_bits(seed, ~stream, index) % 101 == 0;
        return planted ? 30.0 : input_normal(seed, stream, index);
    }
    case INPUTS_CONSTANT:
        return input_normal(seed, stream, row);
    case INPUTS_NORMAL:
    case INPUTS_SPECIAL:
    case INPUTS_SUBNORMAL:
    case INPUT_KINDS:
        break;
    }
    return input_normal(seed, stream, index);
}

void input_matrix(float *x, size_t rows, size_t cols, enum input_kind kind, uint64_t seed,
                  uint64_t stream)
{
    for (size_t row = 0; row < rows; row++)
        for (size_t col = 0; col < cols; col++)
            x[row * cols + col] = (float)input_element(row, col, cols, kind, seed, stream);
}
