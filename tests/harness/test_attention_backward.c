/*
 * The backward problem's reference against what it should be the derivative of: the loss sum(dO∘O)
 * of the forward problem's reference, by finite differences.
 */
#include "problems/attention_backward.h"
#include "harness/refusal.h"
#include "tests/support/harness.h"
#include "tests/support/ladder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 6, OUTPUTS = 3, DO_AT = 5 };

/* A problem of these sizes on the host, with its reference. */
struct made {
    struct trial trial;
    double *gradient[OUTPUTS], *scale[OUTPUTS]; /* of Q, K and V: all rows */
};

static struct made make(const long long *sizes, enum input_kind kind)
{
    struct made made = {.trial = ladder_trial(&attention_backward_problem, sizes, kind, 7, 0)};
    cr_assert(made.trial.input_count == INPUTS && made.trial.tensor_count == INPUTS + OUTPUTS);
    for (int o = 0; o < OUTPUTS; o++) {
        made.gradient[o] = made.trial.value[INPUTS + o];
        made.scale[o] = made.trial.scale[INPUTS + o];
        cr_assert(made.trial.rows[INPUTS + o].count == made.trial.tensors[o].rows);
    }
    return made;
}

/* Returns sum(dO∘O), with O of the forward problem's reference. */
static double loss(const struct trial *trial)
{
    const struct tensor *O = &trial->tensors[0];
    double *value = calloc(O->cols * 4 + 4, sizeof *value), sum = 0.0;
    double *const values[] = {value, value + 2 * O->cols};
    double *const scales[] = {value + O->cols, value + 2 * O->cols + 1};
    for (size_t row = 0; row < O->rows; row++) {
        ladder_reference(&attention_problem, trial->sizes, (const void *const *)trial->host, row,
                         values, scales);
        for (size_t c = 0; c < O->cols; c++)
            sum += value[c] * ((const float *)trial->host[DO_AT])[row * O->cols + c];
    }
    free(value);
    return sum;
}

/* Returns the central difference of the loss with respect to one element of Q, K or V. The step is
 * what a float can be moved by exactly. */
static double difference(const struct trial *trial, int tensor, size_t element)
{
    float *const x = (float *)trial->host[tensor] + element;
    const float before = *x;
    const float up = before + 0x1p-8f, down = before - 0x1p-8f;
    *x = up;
    const double above = loss(trial);
    *x = down;
    const double below = loss(trial);
    *x = before;
    return (above - below) / ((double)up - down);
}

static void check_differences(const long long *sizes, enum input_kind kind)
{
    struct made made = make(sizes, kind);
    for (int t = 0; t < OUTPUTS; t++) {
        const struct tensor *tensor = &made.trial.tensors[t];
        for (size_t i = 0; i < tensor->rows * tensor->cols; i++) {
            const double expected = difference(&made.trial, t, i), is = made.gradient[t][i];
            /* The third derivative of a softmax is a few units, times 2^-16 / 6. */
            cr_expect(fabs(is - expected) <= 2e-4 * (1.0 + fabs(expected)),
                      "d%s[%zu] is %.9g, the difference %.9g", tensor->name, i, is, expected);
        }
    }
    trial_destroy(&made.trial);
}

static const long long plain[MAX_SIZES] = {
    [ATTENTION_BATCH] = 1, [ATTENTION_HEADS] = 2,  [ATTENTION_KV_HEADS] = 2,
    [ATTENTION_SEQ_Q] = 3, [ATTENTION_SEQ_KV] = 5, [ATTENTION_HEAD_DIM] = 4};
static const long long grouped[MAX_SIZES] = {
    [ATTENTION_BATCH] = 2, [ATTENTION_HEADS] = 6,  [ATTENTION_KV_HEADS] = 2,
    [ATTENTION_SEQ_Q] = 2, [ATTENTION_SEQ_KV] = 3, [ATTENTION_HEAD_DIM] = 3};
/* The first two queries see no key. */
static const long long causal[MAX_SIZES] = {
    [ATTENTION_BATCH] = 1,    [ATTENTION_HEADS] = 2,  [ATTENTION_KV_HEADS] = 1,
    [ATTENTION_SEQ_Q] = 6,    [ATTENTION_SEQ_KV] = 4, [ATTENTION_HEAD_DIM] = 3,
    [ATTENTION_CAUSAL] = true};

TEST(reference, is_the_derivative_of_the_forward_pass)
{
    check_differences(plain, INPUTS_NORMAL);
    check_differences(plain, INPUTS_UNIFORM);
}

TEST(reference, sums_over_a_group_of_heads)
{
    check_differences(grouped, INPUTS_NORMAL);
}

TEST(reference, has_the_mask_of_the_forward_pass)
{
    check_differences(causal, INPUTS_NORMAL);
}

/* A query without keys has the gradient 0, and changes no other. */
TEST(reference, what_sees_nothing_adds_nothing)
{
    struct made made = make(causal, INPUTS_NORMAL);
    const size_t d = made.trial.tensors[0].cols;
    double dK[32];
    cr_assert(((const float *)made.trial.host[4])[1] == -INFINITY);
    for (size_t c = 0; c < 2 * d; c++)
        cr_expect(made.gradient[0][c] == 0.0, "dQ[%zu] is %g", c, made.gradient[0][c]);
    memcpy(dK, made.gradient[1], 4 * d * sizeof *dK);
    ((float *)made.trial.host[DO_AT])[0] = 1e30f;
    ((float *)made.trial.host[0])[0] = 1e30f;
    cr_assert(trial_update(&made.trial) == cudaSuccess);
    cr_expect(memcmp(dK, made.gradient[1], 4 * d * sizeof *dK) == 0, "dK has changed");
    trial_destroy(&made.trial);
}

/* A score that is not a number makes its query's gradient, and those of all keys that it sees. */
TEST(reference, not_a_number)
{
    struct made made = make(plain, INPUTS_NORMAL);
    const size_t d = made.trial.tensors[0].cols;
    ((float *)made.trial.host[0])[d] = NAN;
    cr_assert(trial_update(&made.trial) == cudaSuccess);
    for (size_t row = 0; row < made.trial.tensors[0].rows; row++)
        cr_expect(isnan(made.gradient[0][row * d]) == (row == 1), "query %zu", row);
    for (size_t row = 0; row < made.trial.tensors[1].rows; row++)
        for (int t = 1; t < OUTPUTS; t++)
            cr_expect(isnan(made.gradient[t][row * d]) == (row < 5), "key %zu", row);
    trial_destroy(&made.trial);
}

/* Each gradient's scale is at least as large as the gradient: the error is a share of it. */
TEST(reference, scales)
{
    struct made made = make(grouped, INPUTS_ASCENDING);
    for (int t = 0; t < OUTPUTS; t++)
        for (size_t i = 0; i < made.trial.tensors[t].rows * made.trial.tensors[t].cols; i++)
            cr_expect(made.scale[t][i] >= fabs(made.gradient[t][i]));
    trial_destroy(&made.trial);
}

/* ---------------------------------------------------------------------------------------------- */
/* The contract */

static int asked;

static cudaError_t launch(const struct attention_backward *call)
{
    (void)call;
    asked++;
    return cudaSuccess;
}

static const struct attention_backward_kernel kernel = {
    .about.name = "idle", .launch = launch, .max_head_dim = 64, .head_dim_multiple = 8};

static struct attention_backward call_on(const struct trial *trial)
{
    struct attention_backward call = attention_backward_of(trial->sizes);
    const void **const input[] = {&call.Q, &call.K, &call.V, &call.O, (const void **)&call.LSE,
                                  &call.dO};
    void **const output[] = {&call.dQ, &call.dK, &call.dV};
    for (int t = 0; t < INPUTS; t++)
        *input[t] = trial->device[t].data;
    for (int t = 0; t < OUTPUTS; t++)
        *output[t] = trial->device[INPUTS + t].data;
    return call;
}

static void expect_refused(const struct attention_backward *call, const char *words)
{
    refusal_clear();
    asked = 0;
    cr_expect(attention_backward_run(&kernel, call) == cudaErrorInvalidValue && asked == 0, "%s",
              words);
    cr_expect(strstr(refusal(), words) != NULL, "'%s' does not say '%s'", refusal(), words);
}

TEST(contract, refusals)
{
    const long long sizes[MAX_SIZES] = {
        [ATTENTION_BATCH] = 1, [ATTENTION_HEADS] = 2,  [ATTENTION_KV_HEADS] = 1,
        [ATTENTION_SEQ_Q] = 3, [ATTENTION_SEQ_KV] = 5, [ATTENTION_HEAD_DIM] = 8};
    struct trial trial = ladder_trial(&attention_backward_problem, sizes, INPUTS_NORMAL, 1, 0);
    const struct attention_backward good = call_on(&trial);
    struct attention_backward call = good;
    asked = 0;
    cr_expect(attention_backward_run(&kernel, &good) == cudaSuccess && asked == 1);
    expect_refused(NULL, "the call is null");
    call.head_dim = 12;
    expect_refused(&call, "head_dim is 12; this kernel takes multiples of 8");
    call = good, call.causal = true;
    expect_refused(&call, "causal");
    call = good, call.type = TENSOR_F16;
    expect_refused(&call, "type is f16");
    call = good, call.kv_heads = 3;
    expect_refused(&call, "kv_heads is 3");
    call = good, call.scale = NAN;
    expect_refused(&call, "scale is");
    call = good, call.LSE = NULL;
    expect_refused(&call, "LSE is null");
    call = good, call.dO = NULL;
    expect_refused(&call, "dO is null");
    call = good, call.dV = NULL;
    expect_refused(&call, "dV is null");
    call = good, call.dK = (char *)good.dK + 2;
    expect_refused(&call, "dK");
    call = good, call.dQ = (void *)good.O;
    expect_refused(&call, "overlap");
    call = good, call.dV = good.dK;
    expect_refused(&call, "overlap");
    trial_destroy(&trial);
}

/* Without queries, or without keys, the gradients that there are become 0, and no kernel runs. */
TEST(contract, nothing_to_sum)
{
    static const struct {
        int seq_q, seq_kv;
    } cases[] = {{0, 5}, {3, 0}, {0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const long long sizes[MAX_SIZES] = {[ATTENTION_BATCH] = 1,
                                            [ATTENTION_HEADS] = 2,
                                            [ATTENTION_KV_HEADS] = 2,
                                            [ATTENTION_SEQ_Q] = cases[i].seq_q,
                                            [ATTENTION_SEQ_KV] = cases[i].seq_kv,
                                            [ATTENTION_HEAD_DIM] = 8};
        struct trial trial = ladder_trial(&attention_backward_problem, sizes, INPUTS_NORMAL, 1, 0);
        asked = 0;
        const struct verdict verdict = trial_run(&trial, &kernel.about);
        cr_expect(verdict.status == VERDICT_PASS && asked == 0, "%s", verdict.reason);
        trial_destroy(&trial);
    }
}
