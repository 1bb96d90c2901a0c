/* Tests of attention share these inputs: scores that overflow, that are NaN, and that are very
 * small. */
#ifndef TESTS_ATTENTION_NUMBERS_H
#define TESTS_ATTENTION_NUMBERS_H

#include "attention_cases.h"

static inline void fill(struct trial *trial, int at, double value)
{
    const struct tensor *tensor = &trial->tensors[at];
    for (size_t i = 0; i < tensor->rows * tensor->cols; i++)
        tensor_store(trial->host[at], tensor->type, i, value);
}

static inline void upload(struct trial *trial)
{
    for (int t = Q_AT; t <= V_AT; t++)
        cr_assert(device_buffer_upload(&trial->device[t], trial->host[t]) == cudaSuccess);
}

/* Runs the kernel on poisoned O and LSE and brings them to the host. */
static inline void run_both(const struct attention_kernel *row, const struct trial *trial,
                            const struct attention *call)
{
    cr_assert(trial_poison(trial, NULL) == cudaSuccess);
    cr_assert(run_once(row, *call) == cudaSuccess, "%s: %s", row->about.name, refusal());
    for (int t = O_AT; t <= LSE_AT; t++)
        cr_assert(device_buffer_download(&trial->device[t], trial->host[t]) == cudaSuccess);
}

static inline double O_of(const struct trial *trial, size_t row, size_t col)
{
    const struct tensor *O = &trial->tensors[O_AT];
    return tensor_element(trial->host[O_AT], O->type, row * O->cols + col);
}

static inline double LSE_of(const struct trial *trial, size_t row)
{
    return (double)((const float *)trial->host[LSE_AT])[row];
}

/* Returns whether the two are within the tolerance, or equally infinite, or both NaN. */
static inline bool close_by(double is, double expected, double tolerance)
{
    return is == expected || fabs(is - expected) <= tolerance || (isnan(is) && isnan(expected));
}

/* Checks the whole row of O, and its LSE. */
static inline void expect_row(const struct trial *trial, const char *name, const char *what,
                              size_t row, double O, double LSE, double tolerance)
{
    for (size_t c = 0; c < trial->tensors[O_AT].cols; c++)
        cr_expect(close_by(O_of(trial, row, c), O, tolerance), "%s: %s: O[%zu][%zu] is %g, not %g",
                  name, what, row, c, O_of(trial, row, c), O);
    cr_expect(close_by(LSE_of(trial, row), LSE, tolerance), "%s: %s: LSE[%zu] is %g, not %g", name,
              what, row, LSE_of(trial, row), LSE);
}

/* Queries and keys have these values in feature 0 and zeros elsewhere. `count` keys, from the first
 * or up to the last, are `chosen`, and all others are `others`. V is 2 for the chosen keys only. */
struct scores {
    const char *what;
    float scale;
    double query, chosen, others;
    long long count;
};

/* Checks O and LSE of every row. */
static inline void expect_scores(const struct attention_kernel *table, struct size size,
                                 struct scores scores, double O, double LSE)
{
    struct trial trial = trial_with(size, INPUTS_NORMAL, 23);
    const size_t cols = (size_t)size.head_dim;
    struct attention call = call_on(&trial);
    call.scale = scores.scale;
    fill(&trial, Q_AT, 0.0);
    fill(&trial, K_AT, 0.0);
    for (size_t row = 0; row < trial.tensors[Q_AT].rows; row++)
        tensor_store(trial.host[Q_AT], size.type, row * cols, scores.query);
    for (int last = 0; last <= !size.causal; last++) {
        for (long long j = 0; j < size.seq_kv; j++) {
            const bool chosen = (last ? size.seq_kv - 1 - j : j) < scores.count;
            const size_t key = (size_t)j;
            tensor_store(trial.host[K_AT], size.type, key * cols,
                         chosen ? scores.chosen : scores.others);
            for (size_t c = 0; c < cols; c++)
                tensor_store(trial.host[V_AT], size.type, key * cols + c,
                             chosen ? 2.0 : (double)j + 3.0);
        }
        upload(&trial);
        EACH_KERNEL (row, table) {
            const bool takes = row->types == 0 || row->types >> size.type & 1;
            if (!takes || (scores.scale <= 0.0f && row->positive_scale))
                continue;
            run_both(row, &trial, &call);
            for (size_t query = 0; query < trial.tensors[Q_AT].rows; query++)
                expect_row(&trial, row->about.name, scores.what, query, O, LSE, 0.01);
        }
    }
    trial_destroy(&trial);
}

/*
 * Finite inputs have scores that overflow to -inf, for whole tiles, chunks, warps and runs of the
 * keys, at either end, or for all. -inf has no weight; either 44 scores of 2 remain or none.
 */
static inline void check_overflowing_scores(const struct attention_kernel *table)
{
    const struct size size = {1, 1, 1, 5, 300, 4};
    struct scores scores = {"all but 44 overflow", 2.0f, 1e20, 1e-20, -1e20, 44};
    expect_scores(table, size, scores, 2.0, 2.0 + log(44.0));
    scores.what = "all overflow", scores.count = 0;
    expect_scores(table, size, scores, 0.0, (double)-INFINITY);
}

/* With scores below -10,000, no finite stand-in for -inf works. */
static inline void check_very_small_scores(const struct attention_kernel *table)
{
    expect_scores(table, (struct size){1, 1, 1, 3, 300, 4},
                  (struct scores){"scale 1000", 1000.0f, 1.0, -20.0, -30.0, 1}, 2.0, -20000.0);
}

/* A NaN in a key must make every row that sees the key NaN, wherever it lies; a NaN in a query must
 * make its own row NaN. All other rows must be numbers. */
static inline void check_nan_scores(const struct attention_kernel *table, struct size size)
{
    const long long keys[] = {0, 1, 31, size.seq_kv / 2, size.seq_kv - 1};
    enum { KEYS = sizeof keys / sizeof *keys, NAN_QUERY = 4 };
    for (int i = 0; i <= KEYS; i++) {
        struct trial trial = trial_with(size, INPUTS_NORMAL, 9);
        const struct attention call = call_on(&trial);
        const long long at = i < KEYS ? keys[i] : NAN_QUERY;
        tensor_store(trial.host[i < KEYS ? K_AT : Q_AT], size.type,
                     (size_t)(at * size.head_dim) + 3, (double)NAN);
        upload(&trial);
        EACH_KERNEL (row, table) {
            run_both(row, &trial, &call);
            for (long long query = 0; query < size.seq_q; query++) {
                const bool sees = !size.causal || at <= query + size.seq_kv - size.seq_q;
                const bool expected = i < KEYS ? sees : query == NAN_QUERY;
                if (expected)
                    expect_row(&trial, row->about.name, "a NaN", (size_t)query, (double)NAN,
                               (double)NAN, 0.0);
                for (size_t c = 0; c < (size_t)size.head_dim && !expected; c++)
                    cr_assert(isfinite(O_of(&trial, (size_t)query, c)) &&
                                  isfinite(LSE_of(&trial, (size_t)query)),
                              "%s: a NaN in %s %lld reaches query %lld", row->about.name,
                              i < KEYS ? "key" : "query", at, query);
            }
        }
        trial_destroy(&trial);
    }
}

/* LSE may be null. O must be as accurate as with it, and nothing may be written in its place. */
static inline void check_LSE_is_optional(const struct attention_kernel *table,
                                         enum tensor_type type)
{
    static const struct size sizes[] = {
        {1, 2, 1, 37, 70, 24}, {1, 1, 1, 1, 530, 64}, {1, 1, 1, 5, 40, 128}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct size size = sizes[i];
        size.type = type;
        struct trial trial = trial_with(size, INPUTS_NORMAL, 5);
        const struct tensor *O = &trial.tensors[O_AT];
        struct attention call = call_on(&trial);
        call.LSE = NULL;
        EACH_KERNEL (row, table) {
            struct comparison comparison = {.bound = attention_problem.bound(trial.sizes)};
            cr_assert(trial_poison(&trial, NULL) == cudaSuccess);
            run_both(row, &trial, &call);
            check_compare(&comparison, O, trial.host[O_AT], 0, O->rows * O->cols, trial.value[O_AT],
                          trial.scale[O_AT]);
            cr_expect(!comparison.wrong, "%s: with LSE null, case %zu: %s", row->about.name, i,
                      comparison.first);
            for (size_t query = 0; query < O->rows; query++)
                cr_assert(check_is_poison(trial.host[LSE_AT], TENSOR_F32, query, LSE_AT),
                          "%s: wrote LSE[%zu] although LSE is null", row->about.name, query);
        }
        trial_destroy(&trial);
    }
}

/* Queries that see no key must get O = 0 and LSE = -inf, whatever Q holds. */
static inline void check_no_keys(const struct attention_kernel *table, enum tensor_type type)
{
    struct trial trial =
        trial_with((struct size){1, 2, 1, 19, 1, 24, .type = type}, INPUTS_NORMAL, 5);
    struct attention call = call_on(&trial);
    call.seq_kv = 0;
    fill(&trial, Q_AT, (double)INFINITY);
    upload(&trial);
    EACH_KERNEL (row, table) {
        run_both(row, &trial, &call);
        for (size_t query = 0; query < 2 * 19; query++)
            expect_row(&trial, row->about.name, "no keys", query, 0.0, (double)-INFINITY, 0.0);
    }
    trial_destroy(&trial);
}

/* The caller chooses the scale: 0 gives all keys the same weight, and a negative one prefers the
 * least similar keys. With head_dim 16 the usual scale is 1/4, and Q times the ratio of the two is
 * exact, which gives the reference the same scores. */
static inline void check_any_scale(const struct attention_kernel *table, enum tensor_type type)
{
    static const float scale[] = {0.0f, -0.5f, 4.0f};
    const struct size size = {1, 1, 1, 9, 300, 16, table->causal, type};
    struct trial plain = trial_with(size, INPUTS_NORMAL, 5);
    for (size_t i = 0; i < sizeof scale / sizeof *scale; i++) {
        struct trial scaled = trial_with(size, INPUTS_NORMAL, 5);
        struct attention call = call_on(&scaled);
        for (size_t e = 0; e < 9 * 16; e++)
            tensor_store(scaled.host[Q_AT], type, e,
                         tensor_element(plain.host[Q_AT], type, e) * scale[i] / call.scale);
        cr_assert(trial_update(&scaled) == cudaSuccess);
        call.Q = plain.device[Q_AT].data;
        call.scale = scale[i];
        EACH_KERNEL (row, table) {
            struct comparison comparison = {.bound = attention_problem.bound(scaled.sizes)};
            if (scale[i] <= 0.0f && row->positive_scale)
                continue;
            run_both(row, &scaled, &call);
            trial_compare(&scaled, &comparison);
            cr_expect(!comparison.wrong, "%s: scale %g: %s", row->about.name, (double)scale[i],
                      comparison.first);
        }
        trial_destroy(&scaled);
    }
    trial_destroy(&plain);
}

/* These scales fit in a float only until they are multiplied by log2 e. */
static inline void check_refused_scales(const struct attention_kernel *table)
{
    struct trial trial = trial_with((struct size){1, 1, 1, 2, 3, 4}, INPUTS_NORMAL, 9);
    struct attention call = call_on(&trial);
    call.scale = 3e38f;
    expect_refused(table, &call, "scale is 3e+38");
    call.scale = -3e38f;
    expect_refused(table, &call, "scale is -3e+38");
    trial_destroy(&trial);
}

#endif
