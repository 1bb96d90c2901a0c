/* What test_04 and test_05 share: scores that overflow, that are NaN, and that are very small. */
#ifndef TESTS_ATTENTION_NUMBERS_H
#define TESTS_ATTENTION_NUMBERS_H

#include "attention_cases.h"

/* One head's arrays on the host, filled by a test, and what a kernel makes of them. */
struct head {
    struct size size;
    struct trial trial;
    struct attention call;
    float *Q, *K, *V;
    const float *O, *LSE;
};

static inline struct head head_of(struct size size)
{
    struct head head = {.size = size, .trial = trial_with(size, INPUTS_NORMAL, 9)};
    head.call = call_on(&head.trial);
    head.Q = head.trial.host[Q_AT];
    head.K = head.trial.host[K_AT];
    head.V = head.trial.host[V_AT];
    head.O = head.trial.host[O_AT];
    head.LSE = head.trial.host[LSE_AT];
    return head;
}

static inline void head_upload(struct head *head)
{
    for (int t = Q_AT; t <= V_AT; t++)
        cr_assert(device_buffer_upload(&head->trial.device[t], head->trial.host[t]) == cudaSuccess);
}

static inline void head_run(struct head *head, const struct attention_kernel *row)
{
    cr_assert(run_once(row, head->call) == cudaSuccess, "%s", row->about.name);
    for (int t = O_AT; t <= LSE_AT; t++)
        cr_assert(device_buffer_download(&head->trial.device[t], head->trial.host[t]) ==
                  cudaSuccess);
}

static inline void expect_row(const struct head *head, const char *name, int row, float O,
                              float LSE, float tolerance)
{
    const long long d = head->size.head_dim;
    for (int c = 0; c < d; c++)
        cr_expect(head->O[row * d + c] == O || fabsf(head->O[row * d + c] - O) <= tolerance ||
                      (isnan(O) && isnan(head->O[row * d + c])),
                  "%s: O[%d][%d] is %g, not %g", name, row, c, (double)head->O[row * d + c],
                  (double)O);
    cr_expect(head->LSE[row] == LSE || fabsf(head->LSE[row] - LSE) <= tolerance ||
                  (isnan(LSE) && isnan(head->LSE[row])),
              "%s: LSE[%d] is %g, not %g", name, row, (double)head->LSE[row], (double)LSE);
}

/*
 * Finite inputs whose scores overflow to -inf: for whole tiles, chunks, warps and runs of the keys,
 * the first or the last of them, or for all. -inf has no weight; 44 scores of 2 remain, or none.
 */
static inline void check_overflowing_scores(const struct attention_kernel *table)
{
    enum { KEYS = 300, VISIBLE = 44 };
    struct head head = head_of((struct size){1, 1, 1, 5, KEYS, 4});
    head.call.scale = 0.5f;
    for (int i = 0; i < 5 * 4; i++)
        head.Q[i] = 1e20f;
    for (int i = 0; i < KEYS * 4; i++)
        head.V[i] = 1.0f;
    for (int which = 0; which < 3; which++) {
        for (int j = 0; j < KEYS; j++) {
            const bool visible = which == 0   ? j >= KEYS - VISIBLE
                                 : which == 1 ? j < VISIBLE
                                              : false;
            for (int c = 0; c < 4; c++)
                head.K[j * 4 + c] = visible ? 1e-20f : -1e20f;
        }
        head_upload(&head);
        EACH_KERNEL (row, table) {
            head_run(&head, row);
            for (int i = 0; i < 5; i++)
                if (which < 2)
                    expect_row(&head, row->about.name, i, 1.0f, 2.0f + logf(VISIBLE), 1e-5f);
                else
                    expect_row(&head, row->about.name, i, 0.0f, -INFINITY, 0.0f);
        }
    }
    trial_destroy(&head.trial);
}

/* A NaN in a key makes each row NaN, wherever the key lies; a NaN in a query makes its row NaN. */
static inline void check_nan_scores(const struct attention_kernel *table)
{
    enum { QUERIES = 7, KEYS = 300, D = 20 };
    static const int keys[] = {0, 1, 31, 150, KEYS - 1};
    struct head head = head_of((struct size){1, 1, 1, QUERIES, KEYS, D});
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        float *element = &head.K[keys[i] * D + 3], kept = *element;
        *element = NAN;
        head_upload(&head);
        EACH_KERNEL (row, table) {
            head_run(&head, row);
            for (int q = 0; q < QUERIES; q++)
                expect_row(&head, row->about.name, q, NAN, NAN, 0.0f);
        }
        *element = kept;
    }
    head.Q[4 * D + 1] = NAN;
    head_upload(&head);
    EACH_KERNEL (row, table) {
        head_run(&head, row);
        for (int q = 0; q < QUERIES; q++)
            if (q == 4)
                expect_row(&head, row->about.name, q, NAN, NAN, 0.0f);
            else
                cr_expect(isfinite(head.O[q * D]) && isfinite(head.LSE[q]),
                          "%s: a NaN in query 4 reaches query %d", row->about.name, q);
    }
    trial_destroy(&head.trial);
}

/* A scale that only fits a float until it is multiplied by log2 e. */
static inline void check_refused_scales(const struct attention_kernel *table)
{
    struct head head = head_of((struct size){1, 1, 1, 2, 3, 4});
    head.call.scale = 3e38f;
    expect_refused(table, &head.call, "scale is 3e+38");
    head.call.scale = -3e38f;
    expect_refused(table, &head.call, "scale is -3e+38");
    trial_destroy(&head.trial);
}

/* Scores below -10,000, which no stand-in for -inf survives, ascending and descending: the largest
 * is -20000, and the others, 15.625 below each other, weigh next to nothing. */
static inline void check_very_small_scores(const struct attention_kernel *table)
{
    enum { KEYS = 300, D = 4 };
    struct head head = head_of((struct size){1, 1, 1, 3, KEYS, D});
    head.call.scale = 1000.0f;
    for (int i = 0; i < 3 * D; i++)
        head.Q[i] = i % D == 0 ? 1.0f : 0.0f;
    for (int descending = 0; descending < 2; descending++) {
        for (int j = 0; j < KEYS; j++) {
            const int step = descending ? j : KEYS - 1 - j;
            head.K[j * D] = -(20.0f + (float)step / 64.0f);
            for (int c = 0; c < D; c++)
                head.V[j * D + c] = step == 0 ? 3.0f : (float)j;
        }
        head_upload(&head);
        EACH_KERNEL (row, table) {
            head_run(&head, row);
            for (int q = 0; q < 3; q++)
                expect_row(&head, row->about.name, q, 3.0f, -20000.0f, 0.01f);
        }
    }
    trial_destroy(&head.trial);
}

#endif
