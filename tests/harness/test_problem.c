/*
 * This problem asks of the harness all that a problem may ask: ten tensors, integers among the
 * inputs and the outputs, inputs that follow from others, and outputs with different numbers of
 * rows.
 *
 * Sequences of various lengths lie in pages of a common pool. O is what each sequence gathers, uses
 * says how many sequences hold a place of the pool, and total says how many places they hold
 * together.
 *
 * The kernels are host functions that copy, compute and copy back.
 */
#include "harness/trial.h"
#include "tests/support/harness.h"
#include "tests/support/ladder.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PAGE = 4 }; /* in places of the pool */

enum { SEQUENCES, PAGES, POOL, COLS }; /* sizes: PAGES for a sequence, POOL pages */

enum { LENGTH, PAGE_OF, K, V, Q, FIRST, WEIGHT, O, USES, TOTAL, TENSORS };

static size_t extent(const long long *sizes, int size)
{
    return (size_t)sizes[size];
}

static cudaError_t tensors(long long sizes[MAX_SIZES], struct tensor list[MAX_TENSORS], int *count)
{
    const size_t n = extent(sizes, SEQUENCES), pages = extent(sizes, PAGES),
                 places = PAGE * extent(sizes, POOL), d = extent(sizes, COLS);
    list[LENGTH] = (struct tensor){"length", TENSOR_INPUT, TENSOR_I32, n, 1, {n}};
    list[PAGE_OF] = (struct tensor){"page", TENSOR_INPUT, TENSOR_I32, n, pages, {n, pages}};
    list[K] = (struct tensor){"K", TENSOR_INPUT, TENSOR_F32, places, d, {places, d}};
    list[V] = (struct tensor){"V", TENSOR_INPUT, TENSOR_F16, places, d, {places, d}};
    list[Q] = (struct tensor){"Q", TENSOR_INPUT, TENSOR_F32, n, d, {n, d}};
    list[FIRST] = (struct tensor){"first", TENSOR_INPUT, TENSOR_I32, n, 1, {n}};
    list[WEIGHT] = (struct tensor){"weight", TENSOR_INPUT, TENSOR_F32, n, 1, {n}};
    list[O] = (struct tensor){"O", TENSOR_OUTPUT, TENSOR_F32, n, d, {n, d}};
    list[USES] = (struct tensor){"uses", TENSOR_OUTPUT, TENSOR_I32, places, 1, {places}};
    list[TOTAL] = (struct tensor){"total", TENSOR_OUTPUT, TENSOR_I32, 1, 1, {1}};
    *count = TENSORS;
    return cudaSuccess;
}

static void inputs(const long long sizes[MAX_SIZES], enum input_kind kind, uint64_t seed,
                   void *const *host)
{
    const size_t n = extent(sizes, SEQUENCES), pages = extent(sizes, PAGES),
                 pool = extent(sizes, POOL), d = extent(sizes, COLS);
    int32_t *length = host[LENGTH], *page = host[PAGE_OF];
    for (size_t i = 0; i < n; i++)
        length[i] = (int32_t)(input_bits(seed, LENGTH, i) % (PAGE * pages + 1));
    for (size_t i = 0; i < n * pages; i++)
        page[i] = (int32_t)(input_bits(seed, PAGE_OF, i) % pool);
    input_matrix(host[K], PAGE * pool, d, kind, seed, K);
    for (size_t i = 0; i < PAGE * pool * d; i++)
        tensor_store(host[V], TENSOR_F16, i, input_normal(seed, V, i));
    input_matrix(host[Q], n, d, kind, seed, Q);
}

static void derive(const long long sizes[MAX_SIZES], void *const *host)
{
    const size_t n = extent(sizes, SEQUENCES), d = extent(sizes, COLS);
    int32_t *first = host[FIRST], sum = 0;
    float *weight = host[WEIGHT];
    for (size_t i = 0; i < n; i++) {
        first[i] = sum;
        sum += ((const int32_t *)host[LENGTH])[i];
        weight[i] = 1.0f;
        for (size_t c = 0; c < d; c++)
            weight[i] += fabsf(((const float *)host[Q])[i * d + c]);
    }
}

/* Returns where in the pool element t of a sequence lies. */
static size_t place_of(const long long *sizes, const void *const *host, size_t sequence, size_t t)
{
    const int32_t *page = (const int32_t *)host[PAGE_OF] + sequence * extent(sizes, PAGES);
    return (size_t)page[t / PAGE] * PAGE + t % PAGE;
}

static void reference(const long long sizes[MAX_SIZES], const void *const *host,
                      const struct row_list *rows, double *const *value, double *const *scale)
{
    const size_t n = extent(sizes, SEQUENCES), d = extent(sizes, COLS);
    const int32_t *length = host[LENGTH];
    for (size_t r = 0; r < rows[O - O].count; r++)
        for (size_t i = rows[O - O].row[r], c = 0; c < d; c++) {
            double sum = ((const float *)host[Q])[i * d + c], magnitude = fabs(sum) + FLT_MIN;
            for (size_t t = 0; t < (size_t)length[i]; t++) {
                const size_t at = place_of(sizes, host, i, t) * d + c;
                const double term =
                    ((const float *)host[K])[at] * tensor_element(host[V], TENSOR_F16, at);
                sum += term;
                magnitude += fabs(term);
            }
            const double weight = ((const float *)host[WEIGHT])[i];
            value[O - O][r * d + c] = weight * sum;
            scale[O - O][r * d + c] = weight * magnitude;
        }
    for (size_t r = 0; r < rows[USES - O].count; r++) {
        value[USES - O][r] = 0.0;
        scale[USES - O][r] = 1.0; /* the bound is below 1, so integers are exact */
        for (size_t i = 0; i < n; i++)
            for (size_t t = 0; t < (size_t)length[i]; t++)
                value[USES - O][r] += place_of(sizes, host, i, t) == rows[USES - O].row[r];
    }
    value[TOTAL - O][0] = ((const int32_t *)host[FIRST])[n - 1] + length[n - 1];
    scale[TOTAL - O][0] = 1.0;
}

/* A row of uses goes through all sequences, which is the most. */
static double reference_cost(const long long sizes[MAX_SIZES])
{
    return (double)(sizes[SEQUENCES] * sizes[PAGES] * PAGE);
}

static double bound(const long long sizes[MAX_SIZES])
{
    return UNIT_ROUNDOFF_F32 * (roundings((double)(sizes[PAGES] * PAGE)) + 3.0);
}

static double flops(const long long sizes[MAX_SIZES])
{
    return 2.0 * reference_cost(sizes) * (double)sizes[COLS];
}

/* ---------------------------------------------------------------------------------------------- */
/* Kernels */

struct gather_kernel {
    struct kernel about;
    /* Does something wrong with copies of all tensors; null does nothing. */
    void (*mistake)(const long long *sizes, void **array);
    int unwritten; /* it leaves the last element of this output as it was; 0: none */
};

static void gather(const long long *sizes, void **array)
{
    const size_t n = extent(sizes, SEQUENCES), d = extent(sizes, COLS);
    const int32_t *length = array[LENGTH];
    int32_t *uses = array[USES], *total = array[TOTAL];
    memset(uses, 0, PAGE * extent(sizes, POOL) * sizeof *uses);
    for (size_t i = 0; i < n; i++) {
        float *sum = (float *)array[O] + i * d;
        memcpy(sum, (float *)array[Q] + i * d, d * sizeof *sum);
        for (size_t t = 0; t < (size_t)length[i]; t++) {
            const size_t place = place_of(sizes, (const void *const *)array, i, t);
            uses[place]++;
            for (size_t c = 0; c < d; c++)
                sum[c] += ((float *)array[K])[place * d + c] *
                          (float)tensor_element(array[V], TENSOR_F16, place * d + c);
        }
        for (size_t c = 0; c < d; c++)
            sum[c] *= ((float *)array[WEIGHT])[i];
    }
    *total = ((int32_t *)array[FIRST])[n - 1] + length[n - 1];
}

static cudaError_t run(const struct kernel *kernel, const long long sizes[MAX_SIZES],
                       void *const *device, void *workspace, cudaStream_t stream)
{
    const struct gather_kernel *row = (const struct gather_kernel *)kernel;
    long long same[MAX_SIZES];
    struct tensor list[MAX_TENSORS];
    void *array[MAX_TENSORS];
    int count;
    (void)workspace, (void)stream;
    memcpy(same, sizes, sizeof same);
    tensors(same, list, &count);
    for (int t = 0; t < count; t++) {
        const size_t bytes = list[t].rows * list[t].cols * tensor_element_bytes(list[t].type);
        array[t] = malloc(bytes);
        cudaMemcpy(array[t], device[t], bytes, cudaMemcpyDeviceToHost);
    }
    gather(sizes, array);
    if (row->mistake)
        row->mistake(sizes, array);
    for (int t = 0; t < count; t++) {
        const size_t element = tensor_element_bytes(list[t].type);
        const size_t bytes = list[t].rows * list[t].cols * element;
        cudaMemcpy(device[t], array[t], row->unwritten == t && t > 0 ? bytes - element : bytes,
                   cudaMemcpyHostToDevice);
        free(array[t]);
    }
    return cudaSuccess;
}

static const struct size_option options[] = {
    [SEQUENCES] = {.name = "sequences"},
    [PAGES] = {.name = "pages"},
    [POOL] = {.name = "pool"},
    [COLS] = {.name = "cols"},
    {.name = NULL},
};

static const struct problem gather_problem = {
    .name = "gather",
    .sizes = options,
    .row_bytes = sizeof(struct gather_kernel),
    .tensors = tensors,
    .inputs = inputs,
    .derive = derive,
    .reference = reference,
    .reference_cost = reference_cost,
    .bound = bound,
    .flops = flops,
    .run = run,
};

static void next_row(const long long *sizes, void **array)
{
    int32_t *uses = array[USES];
    const size_t last = PAGE * extent(sizes, POOL) - 1;
    const int32_t moved = uses[last];
    memmove(uses + 1, uses, last * sizeof *uses);
    uses[0] = moved;
}

static void one_too_many(const long long *sizes, void **array)
{
    ((int32_t *)array[USES])[PAGE * extent(sizes, POOL) - 1]++;
}

static void total_of_all_but_one(const long long *sizes, void **array)
{
    ((int32_t *)array[TOTAL])[0] = ((int32_t *)array[FIRST])[extent(sizes, SEQUENCES) - 1];
}

static void not_weighted(const long long *sizes, void **array)
{
    const size_t d = extent(sizes, COLS);
    for (size_t i = 0; i < extent(sizes, SEQUENCES) * d; i++)
        ((float *)array[O])[i] /= ((float *)array[WEIGHT])[i / d];
}

static void changes_a_length(const long long *sizes, void **array)
{
    ((int32_t *)array[LENGTH])[extent(sizes, SEQUENCES) - 1]++;
}

static void changes_a_weight(const long long *sizes, void **array)
{
    (void)sizes;
    ((float *)array[WEIGHT])[0] *= 2.0f;
}

static const struct gather_kernel right[] = {{.about.name = "right"}, {.about.name = NULL}};

#define SIZES(n, pages, pool, d)                                                                   \
    ((const long long[MAX_SIZES]){                                                                 \
        [SEQUENCES] = (n), [PAGES] = (pages), [POOL] = (pool), [COLS] = (d)})

TEST(problem, right_kernel_passes)
{
    for (int kind = 0; kind < INPUT_KINDS; kind++) {
        ladder_check(&gather_problem, right, SIZES(1, 1, 1, 1), (enum input_kind)kind, 1, 0);
        ladder_check(&gather_problem, right, SIZES(7, 3, 5, 9), (enum input_kind)kind, 2, 4);
    }
}

TEST(problem, wrong_kernels_are_caught)
{
    static const struct {
        struct gather_kernel kernel;
        enum detector detector;
        const char *words;
    } wrong[] = {
        {{.unwritten = O}, DETECTOR_POISON, "O[6][8] was never written"},
        {{.unwritten = USES}, DETECTOR_POISON, "uses[19][0] was never written"},
        {{.unwritten = TOTAL}, DETECTOR_POISON, "total[0][0] was never written"},
        {{.mistake = next_row}, DETECTOR_COMPARISON, "of uses are wrong"},
        {{.mistake = one_too_many},
         DETECTOR_COMPARISON,
         "1 of 20 elements of uses is wrong: row 19"},
        {{.mistake = total_of_all_but_one}, DETECTOR_COMPARISON, "total[0][0] is"},
        {{.mistake = not_weighted}, DETECTOR_COMPARISON, "each row is right but for a factor"},
        {{.mistake = changes_a_length}, DETECTOR_INPUTS, "input length was changed"},
        {{.mistake = changes_a_weight}, DETECTOR_INPUTS, "input weight was changed"},
    };
    struct trial trial = ladder_trial(&gather_problem, SIZES(7, 3, 5, 9), INPUTS_NORMAL, 2, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct verdict verdict = trial_run(&trial, &wrong[i].kernel.about);
        cr_expect(verdict.status == VERDICT_FAIL && verdict.detector == wrong[i].detector,
                  "%zu: %s", i, detector_name(verdict.detector));
        cr_expect(strstr(verdict.reason, wrong[i].words) != NULL, "%zu: '%s' does not say '%s'", i,
                  verdict.reason, wrong[i].words);
        cr_expect(trial_run(&trial, &right->about).status == VERDICT_PASS);
    }
    trial_destroy(&trial);
}

/* uses is too large to check whole, but O is not. */
TEST(problem, each_output_has_its_own_checked_rows)
{
    static const struct gather_kernel wrong = {.mistake = one_too_many};
    struct trial trial = ladder_trial(&gather_problem, SIZES(900, 50, 750, 2), INPUTS_NORMAL, 3, 0);
    const struct row_list *uses = &trial.rows[USES];
    cr_expect(trial.rows[O].count == 900 && trial.rows[TOTAL].count == 1);
    cr_expect(uses->count > 900 && uses->count < 3000, "%zu rows", uses->count);
    cr_expect(uses->row[0] == 0 && uses->row[uses->count - 1] == 2999);
    cr_expect(trial_run(&trial, &right->about).status == VERDICT_PASS);
    cr_expect(trial_run(&trial, &wrong.about).status == VERDICT_FAIL);
    trial_destroy(&trial);
}

TEST(problem, derived_inputs_follow_the_others)
{
    struct trial trial = ladder_trial(&gather_problem, SIZES(7, 3, 5, 9), INPUTS_NORMAL, 2, 0);
    const int32_t *first = trial.host[FIRST];
    int32_t *length = trial.host[LENGTH];
    cr_expect(first[0] == 0 && first[1] == length[0]);
    for (int i = 0; i < 7; i++)
        length[i] = i;
    cr_assert(trial_update(&trial) == cudaSuccess);
    cr_expect(first[6] == 0 + 1 + 2 + 3 + 4 + 5, "%d", (int)first[6]);
    cr_expect(trial_run(&trial, &right->about).status == VERDICT_PASS);
    cr_expect(((const int32_t *)trial.host[TOTAL])[0] == 21);
    trial_destroy(&trial);
}
