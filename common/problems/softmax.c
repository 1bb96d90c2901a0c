#include "softmax.h"

#include "harness/cases.h"
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
    launch_begins();
    return launch_ends(row->launch(input, output, rows, cols, stream));
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

enum special_row {
    ONE_MINUS_INFINITY, /* 0 there, and no effect on the rest */
    ALL_MINUS_INFINITY, /* NaN */
    ONE_FINITE,         /* 1 there, 0 elsewhere */
    HALF_MINUS_INFINITY,
    ONE_PLUS_INFINITY, /* NaN */
    TWO_PLUS_INFINITIES,
    BOTH_INFINITIES,
    ONE_NAN, /* NaN */
    NAN_AND_MINUS_INFINITY,
    LARGEST_AND_SMALLEST, /* FLT_MAX - (-FLT_MAX) overflows: 1 and 0 */
    ALL_LARGEST,
    SUBNORMAL_RESULTS,
    FAR_BELOW_ZERO, /* no finite stand-in for -inf works here */
    ONE_FAR_BELOW_ZERO,
    SPECIAL_ROWS
};

static void fill_special(float *x, size_t cols, enum special_row kind, size_t at)
{
    const size_t other = (at + cols / 2) % cols;
    for (size_t col = 0; col < cols; col++) {
        switch (kind) {
        case ALL_MINUS_INFINITY:
        case ONE_FINITE:
        case ONE_FAR_BELOW_ZERO:
        case NAN_AND_MINUS_INFINITY:
            x[col] = -INFINITY;
            break;
        case HALF_MINUS_INFINITY:
            if ((col < cols / 2) == (at < cols / 2) && col != at)
                x[col] = -INFINITY;
            break;
        case LARGEST_AND_SMALLEST:
            x[col] = col % 2 ? FLT_MAX : -FLT_MAX;
            break;
        case ALL_LARGEST:
            x[col] = FLT_MAX;
            break;
        case SUBNORMAL_RESULTS:
            x[col] = col == at ? 0.0f : -85.0f - (float)(col % 32);
            break;
        case FAR_BELOW_ZERO:
            x[col] = -20000.0f - (float)(col % 8);
            break;
        default:
            break;
        }
    }
    if (kind == ONE_MINUS_INFINITY)
        x[at] = -INFINITY;
    else if (kind == ONE_FINITE)
        x[at] = -3.0f;
    else if (kind == ONE_FAR_BELOW_ZERO)
        x[at] = -20000.0f;
    else if (kind == ONE_PLUS_INFINITY)
        x[at] = INFINITY;
    else if (kind == TWO_PLUS_INFINITIES || kind == BOTH_INFINITIES) {
        x[other] = kind == BOTH_INFINITIES ? -INFINITY : INFINITY;
        x[at] = INFINITY;
    } else if (kind == ONE_NAN || kind == NAN_AND_MINUS_INFINITY)
        x[at] = NAN;
}

/* The special element comes first, in the middle and last, so that it belongs to different threads
 * and different pieces of the row. */
static void put_special(float *x, size_t rows, size_t cols)
{
    for (size_t row = 0; row < rows; row++) {
        const size_t positions[] = {0, cols / 2, cols - 1};
        fill_special(x + row * cols, cols, (enum special_row)(row % SPECIAL_ROWS),
                     positions[row / SPECIAL_ROWS % 3]);
    }
}

static void inputs(const long long sizes[MAX_SIZES], enum input_kind kind, uint64_t seed,
                   void *const *host)
{
    const size_t rows = (size_t)sizes[SOFTMAX_ROWS], cols = (size_t)sizes[SOFTMAX_COLS];
    float *const x = host[0];
    input_matrix(x, rows, cols, kind, seed, 0);
    if (kind == INPUTS_SPECIAL && cols > 0)
        put_special(x, rows, cols);
    for (size_t i = 0; i < rows * cols && kind == INPUTS_SUBNORMAL; i++)
        x[i] = i % cols == seed % cols ? 0.0f : x[i] - 95.0f;
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

static double bound_of(double cols)
{
    return UNIT_ROUNDOFF_F32 * (roundings(cols) + 8.0);
}

static double bound(const long long sizes[MAX_SIZES])
{
    return bound_of((double)sizes[SOFTMAX_COLS]);
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

cudaError_t softmax_run_sizes(const struct kernel *kernel, const long long sizes[MAX_SIZES],
                              void *const *device, void *workspace, cudaStream_t stream)
{
    (void)workspace;
    return softmax_run((const struct softmax_kernel *)kernel, device[0], device[1],
                       (int)sizes[SOFTMAX_ROWS], (int)sizes[SOFTMAX_COLS], stream);
}

/* ---- Cases ---- */

/* As many rows as there are special ones, each with its element in three places. */
#define SPECIAL "--rows 39 --inputs special "

static const struct case_family cases[] = {
    {CASES_QUICK, "--rows 4..12,8..12 --cols 32..96/32,256..768/64", "whole rows"},
    {CASES_QUICK, "--rows 3..9,130..150,2..4 --cols 45..60,7..9,1025..1100", "ragged rows"},
    {CASES_FIRST, "--rows 3..9 --cols 300..800 --inputs ascending", "a maximum that keeps rising"},
    {CASES_QUICK, "--rows 4..9 --cols 200..900 --inputs large", "exponentials that overflow"},
    {CASES_QUICK, SPECIAL "--cols 33..70", "infinities and NaN"},
    {CASES_USUAL, "--rows 5 --cols 1,2,3,4,5,7,8,31,32,33,63,65,80,100,127,128,129", "short rows"},
    {CASES_USUAL, "--rows 9..40 --cols 1..40", "short rows"},
    {CASES_USUAL,
     "--rows 5 --cols 1,2,3,4,5,7,8,31,32,33,63,65,80,100,127,128,129 --inputs ascending",
     "short rows, each with a maximum at its end"},
    {CASES_USUAL, "--rows 5 --cols 3 --inputs all", "values of each kind"},
    {CASES_USUAL, "--rows 5 --cols 33 --inputs all", "values of each kind"},
    {CASES_USUAL, "--rows 5 --cols 127 --inputs all", "values of each kind"},
    {CASES_USUAL, "--rows 3 --cols 1031 --inputs all", "values of each kind"},
    {CASES_USUAL, "--rows 3 --cols 4100..4200 --inputs all", "values of each kind"},
    {CASES_USUAL, "--rows 2 --cols 16388 --inputs all", "values of each kind"},
    {CASES_USUAL,
     "--rows 3 --cols 131,132,255,256,260,511,515,516,1000,1023,1024,1025,1028,1031,2047,2051,"
     "2052,4096,4097,4100,8191,8196 --inputs ascending",
     "both sides of each shape of thread block"},
    {CASES_USUAL, "--rows 2 --cols 16384,16387,16388,32768,32769,32771", "very long rows"},
    {CASES_USUAL, "--rows 1 --cols 16384..16500,16387,16388,32768,32769,32771 --inputs ascending",
     "very long rows"},
    {CASES_USUAL,
     "--rows 2,1,1 --cols 131071..131100,131072,131072 --inputs large,ascending,descending",
     "rows longer than a block keeps"},
    {CASES_USUAL, "--rows 1,2,7,8,9,16,17,31,33,63,65,127,128,129,1000 --cols 20", "many rows"},
    {CASES_USUAL, "--rows 1,2,7,8,9,16,17,31,33,63,65,127,128,129 --cols 135 --inputs outliers",
     "many rows"},
    {CASES_USUAL, "--rows 1,2,7,8,9,16,17,31,33,63,65,127,128,129 --cols 301 --inputs uniform",
     "many rows"},
    {CASES_USUAL, "--sizes 137x1031,139x1028,2011x3", "more rows than multiprocessors"},
    {CASES_USUAL, "--sizes 0x3,3x0", "nothing to do"},
    {CASES_USUAL, "--rows 3 --cols 1,2,3,4,5,6,7,8,9,31,127,128,515,1024,4099,32774 --offset 4",
     "rows that are not aligned"},
    {CASES_USUAL, "--rows 3 --cols 1,2,3,4,5,6,7,8,9,31,127,128,515,1024,4099,32774 --offset 8",
     "rows that are not aligned"},
    {CASES_USUAL, "--rows 3 --cols 1,2,3,4,5,6,7,8,9,31,127,128,515,1024,4099,32774 --offset 12",
     "rows that are not aligned"},
    {CASES_USUAL,
     "--rows 3 --cols 1,6,128..140,1023..1100,1028,4099..4200,33000 --offset 4 --offset-of input",
     "an output aligned unlike the input"},
    {CASES_USUAL,
     "--rows 3 --cols 1,6,128..140,1023..1100,1028,4099..4200,33000 --offset 8 --offset-of output",
     "an output aligned unlike the input"},
    {CASES_USUAL, SPECIAL "--cols 1,2,5,128,515,1023,4096,4097,32777", "infinities and NaN"},
    {CASES_USUAL, "--rows 40..50,9..12 --cols 1031..1050,4100..4150 --launches 3",
     "what one launch leaves to the next"},
    {CASES_FULL, "--sizes 65537x1,66000x5", "more rows than 16 bits count"},
    {CASES_FULL, "--rows 5 --cols 7 --inputs all", "values of each kind"},
    {CASES_FULL, "--rows 3 --cols 515 --inputs all", "values of each kind"},
    {CASES_FULL, "--rows 2 --cols 8196 --inputs all", "values of each kind"},
    {0},
};

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

static size_t terms(const long long *sizes, int output)
{
    (void)output;
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
    return cols >= r->tile;
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

static const struct mistakes mistakes = {.list = mistake_list,
                                         .terms = terms,
                                         .term = {"columns"},
                                         .partial = partial,
                                         .exponentials = true};

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
    .run = softmax_run_sizes,
    .mistakes = &mistakes,
    .cases = cases,
};
