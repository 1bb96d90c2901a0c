#include "softmax.h"

#include "harness/explain.h"
#include "harness/refusal.h"

#include <float.h>
#include <math.h>

cudaError_t softmax_run(const struct softmax_kernel *row, const float *input, float *output,
                        int rows, int cols, cudaStream_t stream)
{
    cudaError_t status;
    if ((status = require_device(&row->about)) != cudaSuccess ||
        (status = require_size("rows", rows)) != cudaSuccess ||
        (status = require_size("cols", cols)) != cudaSuccess)
        return status;

    const size_t bytes = (size_t)rows * cols * sizeof *input;
    if (bytes == 0)
        return cudaSuccess;
    if ((status = require_pointer("input", input, bytes, sizeof *input)) != cudaSuccess ||
        (status = require_pointer("output", output, bytes, sizeof *output)) != cudaSuccess ||
        (status = require_disjoint("output", output, bytes, "input", input, bytes)) != cudaSuccess)
        return status;
    return row->launch(input, output, rows, cols, stream);
}

static const struct size_option size_options[] = {
    [SOFTMAX_ROWS] = {"rows", "rows, each normalised on its own", 0, MAX_EXTENT, 32, 16384,
                      .flag = false},
    [SOFTMAX_COLS] = {"cols", "columns, the length of each sum", 0, MAX_EXTENT, 4096, 4096,
                      .flag = false},
    {.name = NULL},
};

static cudaError_t tensors(long long sizes[MAX_SIZES], struct tensor list[MAX_TENSORS], int *count)
{
    const size_t rows = (size_t)sizes[SOFTMAX_ROWS], cols = (size_t)sizes[SOFTMAX_COLS];
    list[0] = (struct tensor){"input", TENSOR_INPUT, TENSOR_F32, rows, cols, {rows, cols}};
    list[1] = (struct tensor){"output", TENSOR_OUTPUT, TENSOR_F32, rows, cols, {rows, cols}};
    *count = 2;
    return cudaSuccess;
}

/* Where a kernel's counts might be beyond their type, all are its largest: none is over 2^5 for an
 * element. */
static struct cost cost(const struct kernel *kernel, const long long sizes[MAX_SIZES])
{
    const struct softmax_kernel *row = (const struct softmax_kernel *)kernel;
    if ((double)sizes[SOFTMAX_ROWS] * (double)sizes[SOFTMAX_COLS] > 0x1p57)
        return (struct cost){LLONG_MAX, LLONG_MAX, LLONG_MAX, LLONG_MAX};
    return row->cost(row, (int)sizes[SOFTMAX_ROWS], (int)sizes[SOFTMAX_COLS]);
}

static void inputs(const long long sizes[MAX_SIZES], enum input_kind kind, uint64_t seed,
                   void *const *host)
{
    input_matrix(host[0], (size_t)sizes[SOFTMAX_ROWS], (size_t)sizes[SOFTMAX_COLS], kind, seed, 0);
}

/*
 * A rounding of x - m, half an ulp of a number of that size, is a relative error of the
 * exponential: hence the factor 1 + |x - m|. FLT_MIN stands for the fixed spacing of the results
 * that are below the normal range.
 */
static void reference_row(const float *input, size_t cols, double *value, double *scale)
{
    double m = -INFINITY;
    for (size_t col = 0; col < cols; col++)
        m = fmax(m, input[col]);
    double l = 0.0;
    for (size_t col = 0; col < cols; col++)
        l += exp(input[col] - m);
    for (size_t col = 0; col < cols; col++) {
        const double distance = m - input[col];
        const double output = exp(-distance) / l;
        value[col] = output;
        scale[col] = (output > 0.0 ? output * (1.0 + distance) : 0.0) + FLT_MIN;
    }
}

static void reference(const long long sizes[MAX_SIZES], const void *const *host, const size_t *row,
                      size_t count, double *const *value, double *const *scale)
{
    const size_t cols = (size_t)sizes[SOFTMAX_COLS];
    for (size_t i = 0; i < count; i++)
        reference_row((const float *)host[0] + row[i] * cols, cols, value[0] + i * cols,
                      scale[0] + i * cols);
}

static double reference_cost(const long long sizes[MAX_SIZES])
{
    const double exponentials = 2.0, multiply_adds_each = 10.0;
    return exponentials * multiply_adds_each * (double)sizes[SOFTMAX_COLS];
}

static double bound(const long long sizes[MAX_SIZES])
{
    return UNIT_ROUNDOFF_F32 * (roundings((double)sizes[SOFTMAX_COLS]) + 8.0);
}

/* Per element: a comparison, a subtraction, an exponential, an addition to the sum, and the final
 * scaling. */
static double flops(const long long sizes[MAX_SIZES])
{
    return 5.0 * (double)sizes[SOFTMAX_ROWS] * (double)sizes[SOFTMAX_COLS];
}

static double compulsory_bytes(const long long sizes[MAX_SIZES])
{
    return 2.0 * sizeof(float) * (double)sizes[SOFTMAX_ROWS] * (double)sizes[SOFTMAX_COLS];
}

static cudaError_t run(const struct kernel *kernel, const long long sizes[MAX_SIZES],
                       void *const *device, void *workspace, cudaStream_t stream)
{
    (void)workspace;
    return softmax_run((const struct softmax_kernel *)kernel, device[0], device[1],
                       (int)sizes[SOFTMAX_ROWS], (int)sizes[SOFTMAX_COLS], stream);
}

const struct problem softmax_problem = {
    .name = "softmax",
    .sizes = size_options,
    .row_bytes = sizeof(struct softmax_kernel),
    .tensors = tensors,
    .cost = cost,
    .inputs = inputs,
    .reference = reference,
    .reference_cost = reference_cost,
    .bound = bound,
    .flops = flops,
    .compulsory_bytes = compulsory_bytes,
    .run = run,
    .mistakes = &softmax_mistakes,
};
