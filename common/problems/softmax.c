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

/* Where a count might overflow its type, all counts are set to the largest value. None is over 2^5
 * for an element. */
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

struct statistics {
    double m, l;
};

/* Returns the maximum and the sum of the exponentials (powers of e^log_base) of the elements begin,
 * begin + step, ... below end. */
static struct statistics statistics_of(const float *input, size_t begin, size_t end, size_t step,
                                       double log_base)
{
    struct statistics s = {-INFINITY, 0.0};
    for (size_t i = begin; i < end; i += step)
        s.m = fmax(s.m, input[i]);
    for (size_t i = begin; i < end; i += step)
        s.l += exp((input[i] - s.m) * log_base);
    return s;
}

/*
 * Rounding x - m, by half an ulp, is a relative error of the exponential; hence the factor 1 + |x -
 * m|. FLT_MIN stands for the fixed spacing of results below the normal range.
 */
static void reference_row(const float *input, size_t cols, double *value, double *scale)
{
    const struct statistics s = statistics_of(input, 0, cols, 1, 1.0);
    for (size_t col = 0; col < cols; col++) {
        const double distance = s.m - input[col];
        const double output = exp(-distance) / s.l;
        value[col] = output;
        scale[col] = (output > 0.0 ? output * (1.0 + distance) : 0.0) + FLT_MIN;
    }
}

static void reference(const long long sizes[MAX_SIZES], const void *const *host,
                      const struct row_list *rows, double *const *value, double *const *scale)
{
    const size_t cols = (size_t)sizes[SOFTMAX_COLS];
    for (size_t i = 0; i < rows[0].count; i++)
        reference_row((const float *)host[0] + rows[0].row[i] * cols, cols, value[0] + i * cols,
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

/* Each element takes a comparison, a subtraction, an exponential, an addition to the sum, and the
 * final scaling. */
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

/* ---- Mistakes ---- */

static size_t columns(const struct mistaken_row *r)
{
    return (size_t)r->sizes[SOFTMAX_COLS];
}

static const float *row_of(const struct mistaken_row *r)
{
    return (const float *)r->host[0] + r->row * columns(r);
}

/* Normalises a row with the maximum and the sum of columns begin .. end - 1. */
static bool normalise(const struct mistaken_row *r, size_t begin, size_t end, double log_base)
{
    const float *input = row_of(r);
    const struct statistics s = statistics_of(input, begin, end, 1, log_base);
    for (size_t col = 0; col < columns(r); col++)
        r->value[col] = exp((input[col] - s.m) * log_base) / s.l;
    return true;
}

static size_t terms(const long long *sizes)
{
    return (size_t)sizes[SOFTMAX_COLS];
}

static void partial(const struct mistaken_row *r, size_t begin, size_t end)
{
    normalise(r, begin, end, 1.0);
}

static bool base_2(const struct mistaken_row *r)
{
    return normalise(r, 0, columns(r), M_LN2);
}

static bool undivided(const struct mistaken_row *r)
{
    const size_t cols = columns(r);
    const float *input = row_of(r);
    const double m = statistics_of(input, 0, cols, 1, 1.0).m;
    for (size_t col = 0; col < cols; col++)
        r->value[col] = exp(input[col] - m);
    return true;
}

/* Computes the logarithm of the right result. */
static bool logarithm(const struct mistaken_row *r)
{
    const size_t cols = columns(r);
    normalise(r, 0, cols, 1.0);
    for (size_t col = 0; col < cols; col++)
        r->value[col] = log(r->value[col]);
    return true;
}

/* Makes every column sum to 1, instead of every row. */
static bool of_columns(const struct mistaken_row *r)
{
    const size_t rows = (size_t)r->sizes[SOFTMAX_ROWS], cols = columns(r);
    const float *input = r->host[0];
    for (size_t col = 0; col < cols; col++) {
        const struct statistics s = statistics_of(input, col, rows * cols, cols, 1.0);
        r->value[col] = exp(input[r->row * cols + col] - s.m) / s.l;
    }
    return rows > 1;
}

/* Makes lane i of `tile` lanes normalise columns i, i + tile, ... without the other lanes'. */
static bool of_lanes(const struct mistaken_row *r)
{
    const size_t cols = columns(r);
    const float *input = row_of(r);
    for (size_t lane = 0; lane < r->tile && lane < cols; lane++) {
        const struct statistics s = statistics_of(input, lane, cols, r->tile, 1.0);
        for (size_t col = lane; col < cols; col += r->tile)
            r->value[col] = exp(input[col] - s.m) / s.l;
    }
    return true;
}

static const struct mistake mistake_list[] = {
    {"not-divided",
     "each result is e^(x - m) without the division by the row's sum: divide by l when it is "
     "complete",
     undivided, 0},
    {"base-2",
     "the exponentials have base 2: exp2f(x) is e^x only when x has been multiplied by log2(e)",
     base_2, 0},
    {"wrong-axis", "columns are normalised instead of rows: the elements of a row sum to 1",
     of_columns, 0},
    {"logarithm", "each result is the logarithm of what it should be: the exponential is missing",
     logarithm, 0},
    {"lanes-not-merged",
     "the lanes of a warp are not merged: each divides by the sum of its own columns, every 32nd",
     of_lanes, 32},
    {0},
};

static const struct mistakes mistakes = {
    .list = mistake_list, .terms = terms, .term = "columns", .partial = partial};

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
    .mistakes = &mistakes,
};
