/*
 * These tests are about the harness itself: references agree with cases worked by hand, and checks
 * fail when they should.
 *
 * The kernels here are host functions of the right type; the tests ask which detector catches their
 * faults.
 */
#include "problems/attention.h"
#include "tests/support/harness.h"
#include "harness/inputs.h"
#include "tests/support/ladder.h"
#include "problems/matmul.h"
#include "harness/refusal.h"
#include "problems/softmax.h"
#include "harness/stopwatch.h"
#include "harness/trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------- */
/* These kernels compute a matmul on the host, with one fault. */

enum fault {
    FAULT_NONE,
    FAULT_NAN,
    FAULT_ZEROS,
    FAULT_ONE_WRONG,
    FAULT_ONE_DROPPED_PRODUCT,
    FAULT_UNWRITTEN,
    FAULT_UNWRITTEN_TAIL,
    FAULT_WRITE_BEFORE,
    FAULT_WRITE_PAST,
    FAULT_INPUT_A,
    FAULT_INPUT_B,
    FAULT_ERROR,
    FAULT_ONLY_ONCE,
};

static enum fault fault;
static int calls; /* counted since the fault was chosen */

static void product(const float *A, const float *B, float *C, int M, int N, int K)
{
    for (int row = 0; row < M; row++) {
        for (int col = 0; col < N; col++) {
            double sum = 0.0;
            for (int k = 0; k < K; k++) {
                const bool dropped = fault == FAULT_ONE_DROPPED_PRODUCT && row == M - 1 &&
                                     col == N - 1 && k == K / 2;
                sum += dropped ? 0.0 : (double)A[row * K + k] * B[k * N + col];
            }
            C[row * N + col] = (float)sum;
        }
    }
}

static cudaError_t put(const void *device, const void *host, size_t bytes)
{
    return cudaMemcpy((void *)(uintptr_t)device, host, bytes, cudaMemcpyHostToDevice);
}

static cudaError_t faulty_matmul(const float *A, const float *B, float *C, int M, int N, int K,
                                 cudaStream_t stream)
{
    (void)stream;
    const size_t count_A = (size_t)(M * K), count_B = (size_t)(K * N), count_C = (size_t)(M * N);
    const float stray = 1.0f;
    float *host_A = malloc(count_A * sizeof(float)), *host_B = malloc(count_B * sizeof(float));
    float *host_C = malloc(count_C * sizeof(float));
    size_t written = count_C;

    cudaMemcpy(host_A, A, count_A * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(host_B, B, count_B * sizeof(float), cudaMemcpyDeviceToHost);
    product(host_A, host_B, host_C, M, N, K);
    switch (fault) {
    case FAULT_NAN:
        host_C[count_C / 2] = NAN;
        break;
    case FAULT_ZEROS:
        memset(host_C, 0, count_C * sizeof(float));
        break;
    case FAULT_ONE_WRONG:
        host_C[count_C - 1] += 1e-3f;
        break;
    case FAULT_UNWRITTEN:
        written = 0;
        break;
    case FAULT_UNWRITTEN_TAIL:
        written--;
        break;
    case FAULT_ONLY_ONCE:
        written = calls++ == 0 ? written : 0;
        break;
    case FAULT_WRITE_BEFORE:
        put(C - 1, &stray, sizeof stray);
        break;
    case FAULT_WRITE_PAST:
        put(C + count_C, &stray, sizeof stray);
        break;
    case FAULT_INPUT_A:
        put(A + count_A - 1, &stray, sizeof stray);
        break;
    case FAULT_INPUT_B:
        put(B, &stray, sizeof stray);
        break;
    default:
        break;
    }
    put(C, host_C, written * sizeof(float));
    free(host_A);
    free(host_B);
    free(host_C);
    return fault == FAULT_ERROR ? cudaErrorLaunchFailure : cudaSuccess;
}

static const struct matmul_kernel faulty_kernel = {.about.name = "faulty", .launch = faulty_matmul};

/* A test has one trial, which ends with the test's process. */
static struct verdict verdict_on(enum fault planted)
{
    static struct trial trial;
    if (!trial.problem)
        trial = ladder_trial(&matmul_problem, MATMUL_SIZES(33, 17, 40), INPUTS_NORMAL, 3, 0);
    fault = planted;
    return trial_run(&trial, &faulty_kernel.about);
}

static void caught(enum fault planted, enum detector detector, const char *words)
{
    const struct verdict verdict = verdict_on(planted);
    cr_expect(verdict.status == VERDICT_FAIL && verdict.detector == detector,
              "fault %d: status %d, detector %s instead of %s", (int)planted, (int)verdict.status,
              detector_name(verdict.detector), detector_name(detector));
    cr_expect(strstr(verdict.reason, words) != NULL, "fault %d: '%s' does not say '%s'",
              (int)planted, verdict.reason, words);
}

TEST(check, passes_what_is_right)
{
    const struct verdict verdict = verdict_on(FAULT_NONE);
    cr_assert(verdict.status == VERDICT_PASS, "%s", verdict.reason);
    cr_assert(verdict.error > 0.0 && verdict.error <= verdict.bound);
    cr_assert(verdict.relative_l2 > 0.0 && verdict.relative_l2 < 1e-6);
}

#define FAULT_TEST(name, fault, detector, words)                                                   \
    CALL_TEST(check, name, caught(fault, detector, words))

FAULT_TEST(rejects_nan, FAULT_NAN, DETECTOR_COMPARISON, "C[16][8] is nan")
FAULT_TEST(rejects_zeros, FAULT_ZEROS, DETECTOR_COMPARISON, "C[0][0] is 0")
FAULT_TEST(rejects_one_wrong_element, FAULT_ONE_WRONG, DETECTOR_COMPARISON, "C[32][16]")
FAULT_TEST(rejects_one_dropped_product, FAULT_ONE_DROPPED_PRODUCT, DETECTOR_COMPARISON, "C[32][16]")
FAULT_TEST(rejects_an_untouched_output, FAULT_UNWRITTEN, DETECTOR_POISON,
           "C[0][0] was never written")
FAULT_TEST(rejects_an_unwritten_tail, FAULT_UNWRITTEN_TAIL, DETECTOR_POISON,
           "C[32][16] was never written")
FAULT_TEST(rejects_a_write_before_the_beginning, FAULT_WRITE_BEFORE, DETECTOR_GUARD,
           "C: written 1 bytes before its beginning")
FAULT_TEST(rejects_a_write_past_the_end, FAULT_WRITE_PAST, DETECTOR_GUARD,
           "C: written 0 bytes past its end")

TEST(check, rejects_changed_inputs)
{
    caught(FAULT_INPUT_A, DETECTOR_INPUTS, "input A was changed");
    caught(FAULT_INPUT_B, DETECTOR_INPUTS, "input B was changed");
}

FAULT_TEST(rejects_an_error_code, FAULT_ERROR, DETECTOR_LAUNCH, "unspecified launch failure")

TEST(check, meets_special_values_exactly)
{
    const struct tensor tensor = {"y", TENSOR_OUTPUT, TENSOR_F32, 1, 4, {0}};
    const double value[] = {NAN, INFINITY, -INFINITY, 1.0}, scale[] = {1.0, 1.0, 1.0, 1.0};
    const float right[] = {NAN, INFINITY, -INFINITY, 1.0f};
    const float wrong[][4] = {
        {0.0f, INFINITY, -INFINITY, 1.0f},    {NAN, NAN, -INFINITY, 1.0f},
        {NAN, INFINITY, INFINITY, 1.0f},      {NAN, INFINITY, -INFINITY, NAN},
        {NAN, INFINITY, -INFINITY, INFINITY},
    };
    struct comparison comparison = {.bound = 1e-6};
    check_compare(&comparison, &tensor, right, 0, 4, value, scale);
    cr_assert(!comparison.wrong, "%s", comparison.first);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        comparison = (struct comparison){.bound = 1e-6};
        check_compare(&comparison, &tensor, wrong[i], 0, 4, value, scale);
        cr_expect(comparison.wrong, "wrong[%zu] passed", i);
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* Trials */

TEST(trial, spot_checks_first_and_last_row_of_what_is_large)
{
    struct trial trial =
        ladder_trial(&matmul_problem, MATMUL_SIZES(500, 1000, 5000), INPUTS_NORMAL, 3, 0);
    const struct row_list *rows = &trial.rows[trial.input_count];
    cr_expect(rows->count < 500 && rows->count >= 50, "%zu rows", rows->count);
    cr_expect(rows->row[0] == 0 && rows->row[rows->count - 1] == 499);
    trial_destroy(&trial);
}

TEST(trial, refuses_what_does_not_fit)
{
    struct trial trial;
    cr_assert(trial_create(&trial, &matmul_problem,
                           MATMUL_SIZES(2000000000, 2000000000, 2000000000), INPUTS_NORMAL, 3,
                           0) == cudaErrorMemoryAllocation);
    cr_expect(strstr(refusal(), "device memory") != NULL, "%s", refusal());
}

TEST(trial, misaligns_by_the_offset)
{
    struct trial trial = ladder_trial(&matmul_problem, MATMUL_SIZES(3, 4, 5), INPUTS_NORMAL, 3, 4);
    for (int t = 0; t < trial.tensor_count; t++)
        cr_expect((uintptr_t)trial.device[t].data % 256 == 4);
    fault = FAULT_NONE;
    cr_expect(trial_run(&trial, &faulty_kernel.about).status == VERDICT_PASS);
    trial_destroy(&trial);
}

static void passes_next(struct trial *trial, const char *after)
{
    fault = FAULT_NONE;
    const struct verdict verdict = trial_run(trial, &faulty_kernel.about);
    cr_expect(verdict.status == VERDICT_PASS, "blamed for %s: %s", after, verdict.reason);
}

TEST(trial, blames_no_kernel_for_the_one_before)
{
    static const enum fault faults[] = {FAULT_WRITE_BEFORE, FAULT_WRITE_PAST, FAULT_INPUT_A,
                                        FAULT_INPUT_B, FAULT_ERROR};
    struct trial trial = ladder_trial(&matmul_problem, MATMUL_SIZES(3, 4, 5), INPUTS_NORMAL, 3, 0);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        fault = faults[i];
        cr_expect(trial_run(&trial, &faulty_kernel.about).status == VERDICT_FAIL);
        passes_next(&trial, "a fault of another kernel");
    }
    cudaSetDevice(-1); /* this leaves an error behind */
    passes_next(&trial, "an earlier error");

    /* The device cannot be set up again after a failure, and then it can. */
    const size_t rows = trial.tensors[0].rows;
    trial.tensors[0].rows = (size_t)1 << 50;
    fault = FAULT_ERROR;
    cr_expect(trial_run(&trial, &faulty_kernel.about).status == VERDICT_FAIL);
    const struct verdict verdict = trial_run(&trial, &faulty_kernel.about);
    cr_expect(verdict.status == VERDICT_REFUSED && strstr(verdict.reason, "not run: the device"),
              "status %d: %s", (int)verdict.status, verdict.reason);
    trial.tensors[0].rows = rows;
    passes_next(&trial, "a device without memory");
    trial_destroy(&trial);
}

/* A launcher that does nothing from its second call on is fast. It must not pass. */
TEST(trial, judges_what_is_timed)
{
    static const enum fault faults[] = {FAULT_NONE, FAULT_ONLY_ONCE};
    struct trial trial = ladder_trial(&matmul_problem, MATMUL_SIZES(3, 4, 5), INPUTS_NORMAL, 3, 0);
    for (int i = 0; i < 2; i++) {
        fault = faults[i], calls = 0;
        struct verdict verdict = trial_run(&trial, &faulty_kernel.about);
        cr_expect(verdict.status == VERDICT_PASS);
        trial_time(&trial, &faulty_kernel.about, 3, &verdict);
        cr_expect(verdict.status == (i == 0 ? VERDICT_PASS : VERDICT_FAIL), "fault %d: %s", i,
                  verdict.reason);
    }
    cr_expect(fault == FAULT_ONLY_ONCE && calls == 6);
    trial_destroy(&trial);
}

TEST(stopwatch, takes_the_median)
{
    float odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2};
    cr_assert(stopwatch_median(odd, 3) == 3.0f);
    cr_assert(stopwatch_median(even, 4) == 2.5f);
    cr_assert(stopwatch_median(NULL, 0) == 0.0f);
}

/* ---------------------------------------------------------------------------------------------- */
/* Inputs */

TEST(inputs, depend_on_seed_stream_and_index)
{
    cr_expect(input_bits(1, 2, 3) == input_bits(1, 2, 3));
    cr_expect(input_bits(1, 2, 3) != input_bits(2, 2, 3));
    cr_expect(input_bits(1, 2, 3) != input_bits(1, 3, 3));
    cr_expect(input_bits(1, 2, 3) != input_bits(1, 2, 4));
}

TEST(inputs, have_the_moments_they_claim)
{
    enum { COUNT = 100000 };
    double normal = 0.0, normal_squared = 0.0, uniform = 0.0;
    for (uint64_t i = 0; i < COUNT; i++) {
        const double x = input_normal(7, 0, i), u = input_uniform(7, 1, i);
        normal += x / COUNT;
        normal_squared += x * x / COUNT;
        uniform += u / COUNT;
        cr_assert(u >= 0.0 && u < 1.0 && isfinite(x));
    }
    cr_expect(fabs(normal) < 0.02 && fabs(normal_squared - 1.0) < 0.03, "%g %g", normal,
              normal_squared);
    cr_expect(fabs(uniform - 0.5) < 0.01, "%g", uniform);
}

TEST(inputs, kinds_are_what_their_names_say)
{
    enum { ROWS = 4, COLS = 200 };
    static float x[ROWS * COLS];
    for (int kind = 0; kind < INPUT_KINDS; kind++) {
        enum input_kind found;
        input_matrix(x, ROWS, COLS, (enum input_kind)kind, 5, 0);
        cr_expect(input_kind_find(input_kind_name((enum input_kind)kind), &found) &&
                  (int)found == kind);
        float least = x[0], most = x[0];
        for (int i = 0; i < ROWS * COLS; i++) {
            least = fminf(least, x[i]);
            most = fmaxf(most, x[i]);
        }
        cr_expect(least < most, "%s is the same everywhere",
                  input_kind_name((enum input_kind)kind));
        if (kind == INPUTS_LARGE)
            cr_expect(least >= -200.0f && least < -190.0f && most > 190.0f && most <= 200.0f,
                      "no row far below 0, or none far above: %g to %g", (double)least,
                      (double)most);
        for (int i = 0; kind == INPUTS_LARGE && i < ROWS * COLS; i++)
            cr_assert(fabsf(x[i]) >= 120.0f && (x[i] > 0.0f) == (x[i / COLS * COLS] > 0.0f));
        if (kind == INPUTS_ASCENDING)
            cr_expect(x[0] < x[COLS / 2] && x[COLS / 2] < x[COLS - 1]);
        if (kind == INPUTS_DESCENDING)
            cr_expect(x[0] > x[COLS / 2] && x[COLS / 2] > x[COLS - 1]);
        if (kind == INPUTS_OUTLIERS)
            cr_expect(most == 30.0f);
        if (kind == INPUTS_CONSTANT)
            cr_expect(x[0] == x[COLS - 1] && x[0] != x[COLS]);
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* References against cases worked by hand */

static void close_to(double out, double expected, const char *what)
{
    cr_expect(fabs(out - expected) <= 1e-12 * fmax(1.0, fabs(expected)),
              "%s is %.17g, should be %.17g", what, out, expected);
}

TEST(reference, matmul)
{
    /* [1 2 3; 4 5 6] · [7 8; 9 10; 11 12] = [58 64; 139 154] */
    const float A[] = {1, 2, 3, 4, 5, 6}, B[] = {7, 8, 9, 10, 11, 12};
    const double C[] = {58, 64, 139, 154};
    const long long *const sizes = MATMUL_SIZES(2, 2, 3);
    const void *const host[] = {A, B};
    for (size_t row = 0; row < 2; row++) {
        double value[2], scale[2];
        ladder_reference(&matmul_problem, sizes, host, row, (double *const[]){value},
                         (double *const[]){scale});
        for (size_t col = 0; col < 2; col++) {
            close_to(value[col], C[row * 2 + col], "C");
            close_to(scale[col], C[row * 2 + col], "scale of all-positive products");
        }
    }
    close_to(matmul_problem.flops(sizes), 24.0, "flops");
    close_to(matmul_problem.compulsory_bytes(sizes), 4.0 * (6 + 6 + 4), "bytes");
}

TEST(reference, softmax)
{
    /* softmax(0, ln 2, ln 5) = (1, 2, 5) / 8 up to the rounding of the logarithms to float */
    const float x[] = {0.0f, (float)log(2.0), (float)log(5.0)};
    const void *const host[] = {x};
    double value[3], scale[3];
    ladder_reference(&softmax_problem, SOFTMAX_SIZES(1, 3), host, 0, (double *const[]){value},
                     (double *const[]){scale});
    const double expected[] = {1.0 / 8, 2.0 / 8, 5.0 / 8};
    for (int col = 0; col < 3; col++)
        cr_expect(fabs(value[col] - expected[col]) < 1e-7, "%g", value[col]);
    cr_expect(scale[0] > value[0] && scale[2] >= value[2]);
}

TEST(reference, attention)
{
    /* Two keys whose scores are 0 and ln 3: weights 1/4 and 3/4, LSE = ln 4. */
    const float Q[] = {1.0f, 0.0f}, K[] = {0.0f, 5.0f, (float)log(3.0), -2.0f},
                V[] = {4.0f, 8.0f, 8.0f, -4.0f};
    const long long sizes[MAX_SIZES] = {
        [ATTENTION_BATCH] = 1,    [ATTENTION_HEADS] = 1, [ATTENTION_KV_HEADS] = 1,
        [ATTENTION_SEQ] = 1,      [ATTENTION_SEQ_Q] = 1, [ATTENTION_SEQ_KV] = 2,
        [ATTENTION_HEAD_DIM] = 2, [ATTENTION_CAUSAL] = 0};
    const void *const host[] = {Q, K, V};
    double O[2], O_scale[2], LSE[1], LSE_scale[1];
    ladder_reference(&attention_problem, sizes, host, 0, (double *const[]){O, LSE},
                     (double *const[]){O_scale, LSE_scale});
    /* The scale 1/sqrt(2) makes the second score ln(3)/sqrt(2). */
    const double weight = exp((float)log(3.0) * (double)(float)(1.0 / sqrt(2.0)));
    cr_expect(fabs(O[0] - (4.0 + 8.0 * weight) / (1.0 + weight)) < 1e-6, "%.9g", O[0]);
    cr_expect(fabs(O[1] - (8.0 - 4.0 * weight) / (1.0 + weight)) < 1e-6, "%.9g", O[1]);
    cr_expect(fabs(LSE[0] - log(1.0 + weight)) < 1e-6, "%.9g", LSE[0]);
}

TEST(reference, attention_causal_is_aligned_to_the_bottom_right)
{
    /* Three queries, two keys: the first query sees none, the second one key, the last both. */
    const float Q[] = {1, 1, 1}, K[] = {0, 0}, V[] = {2, 6};
    const long long sizes[MAX_SIZES] = {
        [ATTENTION_BATCH] = 1,    [ATTENTION_HEADS] = 1, [ATTENTION_KV_HEADS] = 1,
        [ATTENTION_SEQ] = 3,      [ATTENTION_SEQ_Q] = 3, [ATTENTION_SEQ_KV] = 2,
        [ATTENTION_HEAD_DIM] = 1, [ATTENTION_CAUSAL] = 1};
    const void *const host[] = {Q, K, V};
    const double expected_O[] = {0, 2, 4}, expected_LSE[] = {-INFINITY, 0, log(2.0)};
    for (size_t row = 0; row < 3; row++) {
        double O, O_scale, LSE, LSE_scale;
        ladder_reference(&attention_problem, sizes, host, row, (double *const[]){&O, &LSE},
                         (double *const[]){&O_scale, &LSE_scale});
        close_to(O, expected_O[row], "O");
        if (row == 0)
            cr_expect(LSE == -INFINITY);
        else
            close_to(LSE, expected_LSE[row], "LSE");
    }
    close_to(attention_problem.flops(sizes), 4.0 * 3 * 1, "flops of three visible pairs");
}

TEST(reference, attention_groups_query_heads)
{
    /* Four query heads share two key/value heads: 0 and 1 read the first, 2 and 3 the second. There
     * is one key, so O = V. */
    const float Q[] = {1, 2, 3, 4}, K[] = {1, 1}, V[] = {10, 20};
    const long long sizes[MAX_SIZES] = {
        [ATTENTION_BATCH] = 1,    [ATTENTION_HEADS] = 4, [ATTENTION_KV_HEADS] = 2,
        [ATTENTION_SEQ] = 1,      [ATTENTION_SEQ_Q] = 1, [ATTENTION_SEQ_KV] = 1,
        [ATTENTION_HEAD_DIM] = 1, [ATTENTION_CAUSAL] = 0};
    const void *const host[] = {Q, K, V};
    for (size_t row = 0; row < 4; row++) {
        double O, O_scale, LSE, LSE_scale;
        ladder_reference(&attention_problem, sizes, host, row, (double *const[]){&O, &LSE},
                         (double *const[]){&O_scale, &LSE_scale});
        close_to(O, row < 2 ? 10 : 20, "O");
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* Argument checks of what a kernel is and how many blocks it starts; the steps' tests have those of
 * calls */

TEST(arguments, blocks)
{
    cr_expect(require_blocks(INT32_MAX) == cudaSuccess);
    cr_expect(require_blocks((size_t)INT32_MAX + 1) == cudaErrorInvalidValue);
}

TEST(arguments, architecture)
{
    struct kernel kernel = {.architecture = NULL};
    cr_expect(require_device(&kernel) == cudaSuccess);
    kernel.architecture = "sm_999";
    cr_expect(require_device(&kernel) == cudaErrorNotSupported);
    cr_expect(strstr(refusal(), "needs sm_999 (this device is sm_") != NULL, "%s", refusal());
    kernel.falls_back = true;
    cr_expect(require_device(&kernel) == cudaSuccess);
    kernel = (struct kernel){.architecture = "sm_10a"};
    cr_expect(require_device(&kernel) == cudaErrorNotSupported);
    cr_expect(strstr(refusal(), "later architectures") != NULL, "%s", refusal());
}

/* ---------------------------------------------------------------------------------------------- */
/* Element types */

/* Every 16-bit pattern that is not a NaN must be stored again as it was. */
TEST(elements, are_stored_as_they_are_read)
{
    for (int type = TENSOR_F16; type <= TENSOR_BF16; type++)
        for (unsigned bits = 0; bits < 1u << 16; bits++) {
            const uint16_t stored = (uint16_t)bits;
            uint16_t again = 0;
            const double x = tensor_element(&stored, (enum tensor_type)type, 0);
            tensor_store(&again, (enum tensor_type)type, 0, x);
            cr_assert(again == stored || isnan(x), "%s: %#x is %g, which is stored as %#x",
                      tensor_type_names[type], bits, x, (unsigned)again);
            tensor_store(&again, (enum tensor_type)type, 0, NAN);
            cr_assert(isnan(tensor_element(&again, (enum tensor_type)type, 0)) && again != 0xffff);
        }
}

/* The number halfway between two neighbours must round to the even one, and a number nearer to one
 * must round to that. */
TEST(elements, are_rounded_to_the_nearest)
{
    for (int type = TENSOR_F16; type <= TENSOR_BF16; type++) {
        const unsigned infinity = type == TENSOR_F16 ? 0x7c00 : 0x7f80;
        for (unsigned bits = 0; bits + 1 < infinity; bits++) {
            const uint16_t pair[2] = {(uint16_t)bits, (uint16_t)(bits + 1)};
            const double below = tensor_element(pair, (enum tensor_type)type, 0),
                         above = tensor_element(pair, (enum tensor_type)type, 1);
            const double middle = 0.5 * (below + above), hair = (above - below) * 1e-6;
            uint16_t got[3];
            tensor_store(got, (enum tensor_type)type, 0, middle - hair);
            tensor_store(got, (enum tensor_type)type, 1, middle);
            tensor_store(got, (enum tensor_type)type, 2, middle + hair);
            cr_assert(got[0] == bits && got[1] == bits + bits % 2 && got[2] == bits + 1,
                      "%s: around %g: %#x %#x %#x", tensor_type_names[type], middle,
                      (unsigned)got[0], (unsigned)got[1], (unsigned)got[2]);
        }
        uint16_t got[2];
        const uint16_t largest = (uint16_t)(infinity - 1);
        const double edge = tensor_element(&largest, (enum tensor_type)type, 0) *
                            (1.0 + 0.5 * tensor_roundoff((enum tensor_type)type));
        tensor_store(got, (enum tensor_type)type, 0, edge);
        tensor_store(got, (enum tensor_type)type, 1, -INFINITY);
        cr_expect(got[0] == largest && got[1] == (0x8000 | infinity));
    }
}

TEST(elements, bound_of_bfloat16)
{
    const long long sizes[MAX_SIZES] = {
        [ATTENTION_BATCH] = 1,     [ATTENTION_HEADS] = 1,          [ATTENTION_SEQ] = 1,
        [ATTENTION_HEAD_DIM] = 24, [ATTENTION_TYPE] = TENSOR_BF16,
    };
    const double bound = attention_problem.bound(sizes);
    cr_expect(bound > 3.0 * 0x1p-8 && bound < 4.0 * 0x1p-8, "%g", bound);
}
