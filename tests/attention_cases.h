/* What test_04, test_05 and test_06 share: the same contract, in single and in half precision. */
#ifndef TESTS_ATTENTION_CASES_H
#define TESTS_ATTENTION_CASES_H

#include "attention.h"
#include "harness.h"
#include "ladder.h"
#include "refusal.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct size {
    long long batch, heads, kv_heads, seq_q, seq_kv, head_dim;
};

/* fills in a MAX_SIZES array */
#define SIZES(size)                                                                                \
    {                                                                                              \
        [ATTENTION_BATCH] = (size).batch, [ATTENTION_HEADS] = (size).heads,                        \
        [ATTENTION_KV_HEADS] = (size).kv_heads, [ATTENTION_SEQ_Q] = (size).seq_q,                  \
        [ATTENTION_SEQ_KV] = (size).seq_kv, [ATTENTION_HEAD_DIM] = (size).head_dim                 \
    }

static inline struct attention_shape shape_of(struct size size)
{
    return (struct attention_shape){
        .batch = (int)size.batch,
        .heads = (int)size.heads,
        .kv_heads = (int)size.kv_heads,
        .seq_q = (int)size.seq_q,
        .seq_kv = (int)size.seq_kv,
        .head_dim = (int)size.head_dim,
        .scale = 1.0f / sqrtf((float)size.head_dim),
    };
}

static inline long long tiles(long long n, long long tile)
{
    return (n + tile - 1) / tile;
}

/* ---------------------------------------------------------------------------------------------- */
/* Past the command line: what it cannot ask for, of either precision */

static inline struct trial trial_of(const struct problem *problem, struct size size)
{
    struct trial trial;
    const long long sizes[MAX_SIZES] = SIZES(size);
    cr_assert(trial_create(&trial, problem, sizes, INPUTS_NORMAL, 5, 0) == cudaSuccess);
    return trial;
}

enum { Q_AT, K_AT, V_AT, O_AT, LSE_AT };

/* The trial's device pointers, to be passed on with changes. */
static inline void pointers_of(const struct trial *trial, void *device[MAX_TENSORS])
{
    for (int t = 0; t < MAX_TENSORS; t++)
        device[t] = trial->device[t].data;
}

/* Runs row `index` on sizes and pointers of the caller's, with the workspace it asks for. */
static inline cudaError_t run_once(const struct problem *problem, const void *table, size_t index,
                                   const long long *sizes, void *const *device)
{
    const size_t bytes = problem->workspace(table, index, sizes);
    struct device_buffer workspace = {0};
    cr_assert(device_buffer_create(&workspace, bytes, 0) == cudaSuccess);
    cudaError_t status =
        problem->run(table, index, sizes, device, bytes ? workspace.data : NULL, NULL);
    if (status == cudaSuccess)
        status = cudaDeviceSynchronize();
    device_buffer_destroy(&workspace);
    return status;
}

/* False, and a line that says why, when the device is too old or too new for row `index`. */
static inline bool runs_here(const struct problem *problem, const void *table, size_t index)
{
    const struct size size = {1, 1, 1, 1, 1, 8};
    struct trial trial = trial_of(problem, size);
    const struct verdict verdict = trial_run(&trial, table, index);
    trial_destroy(&trial);
    if (verdict.status == VERDICT_SKIPPED)
        fprintf(stderr, "skipped: %s %s\n", problem->kernel(table, index).name, verdict.reason);
    return verdict.status != VERDICT_SKIPPED;
}

/* LSE may be null; O is as right as with it, and nothing is written where LSE would have been. */
static inline void check_LSE_is_optional(const struct problem *problem, const void *table)
{
    static const struct size size[] = {
        {1, 2, 1, 37, 70, 24}, {2, 1, 1, 1, 700, 64}, {1, 1, 1, 5, 40, 128}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        struct trial trial = trial_of(problem, size[i]);
        const struct tensor *O = &trial.tensors[O_AT], *LSE = &trial.tensors[LSE_AT];
        void *device[MAX_TENSORS];
        pointers_of(&trial, device);
        device[LSE_AT] = NULL;
        for (size_t index = 0; problem->kernel(table, index).name; index++) {
            const char *name = problem->kernel(table, index).name;
            struct verdict verdict = {.status = VERDICT_PASS, .bound = problem->bound(trial.sizes)};
            if (!runs_here(problem, table, index))
                continue;
            cr_assert(device_buffer_poison(&trial.device[O_AT]) == cudaSuccess);
            cr_assert(device_buffer_poison(&trial.device[LSE_AT]) == cudaSuccess);
            cr_assert(run_once(problem, table, index, trial.sizes, device) == cudaSuccess);
            cr_assert(device_buffer_download(&trial.device[O_AT], trial.host[O_AT]) == cudaSuccess);
            cr_assert(device_buffer_download(&trial.device[LSE_AT], trial.host[LSE_AT]) ==
                      cudaSuccess);
            check_compare(&verdict, O, trial.host[O_AT], 0, O->rows * O->cols, trial.value[O_AT],
                          trial.scale[O_AT]);
            cr_expect(verdict.status == VERDICT_PASS, "%s: with LSE null, case %zu: %s", name, i,
                      verdict.reason);
            for (size_t row = 0; row < LSE->rows; row++)
                cr_assert(check_unwritten((float *)trial.host[LSE_AT] + row, TENSOR_F32, 1) == 0,
                          "%s: wrote LSE[%zu] although LSE is null", name, row);
        }
        trial_destroy(&trial);
    }
}

/* Queries with no key to see: O = 0 and LSE = -inf. */
static inline void check_no_keys(const struct problem *problem, const void *table)
{
    const struct size size = {1, 2, 1, 19, 1, 24};
    struct trial trial = trial_of(problem, size);
    long long sizes[MAX_SIZES] = SIZES(size);
    void *device[MAX_TENSORS];
    pointers_of(&trial, device);
    sizes[ATTENTION_SEQ_KV] = 0;
    for (size_t index = 0; problem->kernel(table, index).name; index++) {
        const char *name = problem->kernel(table, index).name;
        if (!runs_here(problem, table, index))
            continue;
        cr_assert(run_once(problem, table, index, sizes, device) == cudaSuccess, "%s", name);
        cr_assert(device_buffer_download(&trial.device[O_AT], trial.host[O_AT]) == cudaSuccess);
        cr_assert(device_buffer_download(&trial.device[LSE_AT], trial.host[LSE_AT]) == cudaSuccess);
        for (size_t e = 0; e < 2 * 19 * 24; e++) {
            const double O = tensor_element(trial.host[O_AT], trial.tensors[O_AT].type, e);
            cr_assert(O == 0.0, "%s: O[%zu] is %g", name, e, O);
        }
        for (size_t row = 0; row < 2 * 19; row++) {
            const float LSE = ((const float *)trial.host[LSE_AT])[row];
            cr_assert(LSE == -INFINITY, "%s: LSE[%zu] is %g", name, row, (double)LSE);
        }
    }
    trial_destroy(&trial);
}

/* Every row refuses these sizes with a sentence that holds `words`. */
static inline void refused(const struct trial *trial, const void *table, const long long *sizes,
                           const char *words)
{
    const struct problem *problem = trial->problem;
    void *device[MAX_TENSORS];
    pointers_of(trial, device);
    for (size_t index = 0; problem->kernel(table, index).name; index++) {
        const char *name = problem->kernel(table, index).name;
        if (!runs_here(problem, table, index))
            continue;
        refusal_clear();
        const cudaError_t status = problem->run(table, index, sizes, device, device[LSE_AT], NULL);
        cr_expect(status == cudaErrorInvalidValue, "%s: %s: %s", name, words,
                  cudaGetErrorString(status));
        cr_expect(strstr(refusal(), words) != NULL, "%s: '%s' does not say '%s'", name, refusal(),
                  words);
    }
    cr_assert(cudaDeviceSynchronize() == cudaSuccess);
}

static inline void check_refused_sizes(const struct problem *problem, const void *table)
{
    static const struct {
        enum attention_size which[2];
        long long value[2];
        const char *words;
    } bad[] = {
        {{ATTENTION_HEAD_DIM, ATTENTION_HEAD_DIM},
         {0, 0},
         "head_dim is 0; this kernel takes 1 .. 128"},
        {{ATTENTION_HEAD_DIM, ATTENTION_HEAD_DIM},
         {129, 129},
         "head_dim is 129; this kernel takes 1 .. 128"},
        {{ATTENTION_HEAD_DIM, ATTENTION_HEAD_DIM}, {4096, 4096}, "head_dim is 4096"},
        {{ATTENTION_HEADS, ATTENTION_KV_HEADS}, {3, 2}, "kv_heads is 2"},
        {{ATTENTION_KV_HEADS, ATTENTION_KV_HEADS}, {0, 0}, "kv_heads is 0"},
        {{ATTENTION_SEQ_Q, ATTENTION_SEQ_Q}, {-1, -1}, "seq_q is -1"},
        {{ATTENTION_SEQ_KV, ATTENTION_SEQ_KV}, {INT_MAX, INT_MAX}, "seq_kv is 2147483647"},
    };
    const struct size size = {1, 2, 1, 5, 7, 16};
    struct trial trial = trial_of(problem, size);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        long long sizes[MAX_SIZES] = SIZES(size);
        for (int j = 0; j < 2; j++)
            sizes[bad[i].which[j]] = bad[i].value[j];
        refused(&trial, table, sizes, bad[i].words);
    }
    trial_destroy(&trial);
}

/* Null, askew, or the output on top of an input. */
static inline void check_refused_pointers(const struct problem *problem, const void *table,
                                          struct size size)
{
    struct trial trial = trial_of(problem, size);
    for (size_t index = 0; problem->kernel(table, index).name; index++) {
        if (!runs_here(problem, table, index))
            continue;
        const char *name = problem->kernel(table, index).name;
        const size_t workspace_bytes = problem->workspace(table, index, trial.sizes);
        void *workspace = NULL, *device[MAX_TENSORS];
        if (workspace_bytes > 0)
            cr_assert(cudaMalloc(&workspace, workspace_bytes) == cudaSuccess);
        for (int t = Q_AT; t <= O_AT; t++) {
            pointers_of(&trial, device);
            device[t] = NULL;
            cr_expect(problem->run(table, index, trial.sizes, device, workspace, NULL) ==
                          cudaErrorInvalidValue,
                      "%s: %s null", name, trial.tensors[t].name);
            pointers_of(&trial, device);
            device[t] = (char *)device[t] + tensor_element_bytes(trial.tensors[t].type) / 2;
            cr_expect(problem->run(table, index, trial.sizes, device, workspace, NULL) ==
                          cudaErrorInvalidValue,
                      "%s: %s askew", name, trial.tensors[t].name);
        }
        pointers_of(&trial, device);
        device[O_AT] = device[Q_AT];
        cr_expect(problem->run(table, index, trial.sizes, device, workspace, NULL) ==
                      cudaErrorInvalidValue,
                  "%s: O on Q", name);
        pointers_of(&trial, device);
        if (workspace != NULL)
            cr_expect(problem->run(table, index, trial.sizes, device, NULL, NULL) ==
                          cudaErrorInvalidValue,
                      "%s: workspace null", name);
        cr_assert(cudaDeviceSynchronize() == cudaSuccess);
        cr_assert(cudaFree(workspace) == cudaSuccess);
    }
    trial_destroy(&trial);
}

/* ---------------------------------------------------------------------------------------------- */
/* Single precision only: what only the shape can say */

/* The scale is the caller's: 0 makes every key weigh the same, a negative one prefers the least
 * similar. */
static inline void check_any_scale(const struct attention_kernel *table)
{
    static const float scale[] = {0.0f, -0.5f, 3.0f};
    const struct size size = {1, 1, 1, 9, 300, 12};
    struct trial trial = trial_of(&attention_problem, size);
    const float *Q = trial.host[Q_AT], *K = trial.host[K_AT], *V = trial.host[V_AT];
    void *const *device = (void *[]){trial.device[Q_AT].data, trial.device[K_AT].data,
                                     trial.device[V_AT].data, trial.device[O_AT].data};
    float *O = malloc(trial.device[O_AT].bytes);
    for (size_t i = 0; i < sizeof scale / sizeof *scale; i++) {
        struct attention_shape shape = shape_of(size);
        shape.scale = scale[i];
        for (const struct attention_kernel *kernel = table; kernel->name; kernel++) {
            const size_t bytes = kernel->workspace ? kernel->workspace(&shape) : 0;
            struct device_buffer workspace = {0};
            cr_assert(device_buffer_create(&workspace, bytes, 0) == cudaSuccess);
            cr_assert(kernel->run(device[Q_AT], device[K_AT], device[V_AT], device[O_AT], NULL,
                                  bytes ? workspace.data : NULL, &shape, NULL) == cudaSuccess);
            cr_assert(device_buffer_download(&trial.device[O_AT], O) == cudaSuccess);
            device_buffer_destroy(&workspace);
            for (int row = 0; row < 9; row++) {
                double l = 0.0, sum[12] = {0.0};
                for (int j = 0; j < 300; j++) {
                    double s = 0.0;
                    for (int k = 0; k < 12; k++)
                        s += (double)Q[row * 12 + k] * K[j * 12 + k];
                    const double p = exp(s * scale[i]);
                    l += p;
                    for (int c = 0; c < 12; c++)
                        sum[c] += p * V[j * 12 + c];
                }
                for (int c = 0; c < 12; c++)
                    cr_assert(fabs(O[row * 12 + c] - sum[c] / l) < 1e-4,
                              "%s: scale %g, O[%d][%d] is %g, not %g", kernel->name,
                              (double)scale[i], row, c, (double)O[row * 12 + c], sum[c] / l);
            }
        }
    }
    free(O);
    trial_destroy(&trial);
}

static inline void check_refused_shapes(const struct attention_kernel *table)
{
    const struct size size = {1, 2, 1, 5, 7, 16};
    struct trial trial = trial_of(&attention_problem, size);
    float *Q = trial.device[Q_AT].data, *K = trial.device[K_AT].data, *V = trial.device[V_AT].data;
    float *O = trial.device[O_AT].data, *LSE = trial.device[LSE_AT].data;
    struct attention_shape not_finite = shape_of(size), causal = shape_of(size);
    not_finite.scale = NAN;
    causal.causal = true;
    const struct {
        const struct attention_shape *shape;
        const char *words;
    } bad[] = {{NULL, "shape is null"}, {&not_finite, "scale"}, {&causal, "causal"}};
    for (const struct attention_kernel *kernel = table; kernel->name; kernel++)
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            refusal_clear();
            cr_expect(kernel->run(Q, K, V, O, LSE, LSE, bad[i].shape, NULL) ==
                          cudaErrorInvalidValue,
                      "%s: %s", kernel->name, bad[i].words);
            cr_expect(strstr(refusal(), bad[i].words) != NULL, "%s: '%s' does not say '%s'",
                      kernel->name, refusal(), bad[i].words);
        }
    trial_destroy(&trial);
}

#endif
