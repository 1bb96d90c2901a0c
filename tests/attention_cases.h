/* What test_04 and test_05 share: two tables of one problem, so the same contract. */
#ifndef TESTS_ATTENTION_CASES_H
#define TESTS_ATTENTION_CASES_H

#include "attention.h"
#include "harness.h"
#include "ladder.h"
#include "refusal.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct size {
    long long batch, heads, kv_heads, seq_q, seq_kv, head_dim;
};

/* fills in a MAX_SIZES array */
#define SIZES(size)                                                                                          \
    {                                                                                                        \
        [ATTENTION_BATCH] = (size).batch, [ATTENTION_HEADS] = (size).heads,                                  \
        [ATTENTION_KV_HEADS] = (size).kv_heads, [ATTENTION_SEQ_Q] = (size).seq_q,                            \
        [ATTENTION_SEQ_KV] = (size).seq_kv, [ATTENTION_HEAD_DIM] = (size).head_dim                           \
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

/* ------------------------------------------------------------------------------------------------------ */
/* Through the C functions: what the command line cannot ask for */

/* Runs a kernel on a trial's tensors with a shape and pointers of the caller's. */
static inline cudaError_t run_once(const struct attention_kernel *kernel, const struct trial *trial,
                                   float *LSE, const struct attention_shape *shape)
{
    const size_t bytes = kernel->workspace ? kernel->workspace(shape) : 0;
    struct device_buffer workspace = {0};
    cr_assert(device_buffer_create(&workspace, bytes, 0) == cudaSuccess);
    cudaError_t status = kernel->run(trial->device[0].data, trial->device[1].data, trial->device[2].data,
                                     trial->device[3].data, LSE, bytes ? workspace.data : NULL, shape, NULL);
    if (status == cudaSuccess)
        status = cudaDeviceSynchronize();
    device_buffer_destroy(&workspace);
    return status;
}

static inline struct trial trial_of(struct size size)
{
    struct trial trial;
    const long long sizes[MAX_SIZES] = SIZES(size);
    cr_assert(trial_create(&trial, &attention_problem, sizes, INPUTS_NORMAL, 5, 0) == cudaSuccess);
    return trial;
}

/* LSE may be null; O is as right as with it, and nothing is written where LSE would have been. */
static inline void check_LSE_is_optional(const struct attention_kernel *table)
{
    static const struct size size[] = {{1, 2, 1, 37, 70, 20}, {2, 1, 1, 1, 700, 64}, {1, 1, 1, 5, 40, 128}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        struct trial trial = trial_of(size[i]);
        const struct attention_shape shape = shape_of(size[i]);
        const struct tensor *O = &trial.tensors[3], *LSE = &trial.tensors[4];
        for (const struct attention_kernel *kernel = table; kernel->name; kernel++) {
            struct verdict verdict = {.status = VERDICT_PASS, .bound = attention_problem.bound(trial.sizes)};
            cr_assert(device_buffer_poison(&trial.device[3]) == cudaSuccess);
            cr_assert(device_buffer_poison(&trial.device[4]) == cudaSuccess);
            cr_assert(run_once(kernel, &trial, NULL, &shape) == cudaSuccess);
            cr_assert(device_buffer_download(&trial.device[3], trial.host[3]) == cudaSuccess);
            cr_assert(device_buffer_download(&trial.device[4], trial.host[4]) == cudaSuccess);
            check_compare(&verdict, O, trial.host[3], 0, O->rows * O->cols, trial.value[3], trial.scale[3]);
            cr_expect(verdict.status == VERDICT_PASS, "%s: with LSE null, case %zu: %s", kernel->name, i,
                      verdict.reason);
            for (size_t row = 0; row < LSE->rows; row++)
                cr_assert(check_unwritten((float *)trial.host[4] + row, TENSOR_F32, 1) == 0,
                          "%s: wrote LSE[%zu] although LSE is null", kernel->name, row);
        }
        trial_destroy(&trial);
    }
}

/* Queries with no key to see: O = 0 and LSE = -inf. */
static inline void check_no_keys(const struct attention_kernel *table)
{
    const struct size size = {1, 2, 1, 19, 1, 20};
    struct trial trial = trial_of(size);
    struct attention_shape shape = shape_of(size);
    shape.seq_kv = 0;
    float *O = malloc(trial.device[3].bytes), *LSE = malloc(trial.device[4].bytes);
    for (const struct attention_kernel *kernel = table; kernel->name; kernel++) {
        cr_assert(run_once(kernel, &trial, trial.device[4].data, &shape) == cudaSuccess);
        cr_assert(device_buffer_download(&trial.device[3], O) == cudaSuccess);
        cr_assert(device_buffer_download(&trial.device[4], LSE) == cudaSuccess);
        for (size_t e = 0; e < 2 * 19 * 20; e++)
            cr_assert(O[e] == 0.0f, "%s: O[%zu] is %g", kernel->name, e, (double)O[e]);
        for (size_t row = 0; row < 2 * 19; row++)
            cr_assert(LSE[row] == -INFINITY, "%s: LSE[%zu] is %g", kernel->name, row, (double)LSE[row]);
    }
    free(O);
    free(LSE);
    trial_destroy(&trial);
}

/* The scale is the caller's: 0 makes every key weigh the same, a negative one prefers the least similar. */
static inline void check_any_scale(const struct attention_kernel *table)
{
    static const float scale[] = {0.0f, -0.5f, 3.0f};
    const struct size size = {1, 1, 1, 9, 300, 12};
    struct trial trial = trial_of(size);
    const float *Q = trial.host[0], *K = trial.host[1], *V = trial.host[2];
    float *O = malloc(trial.device[3].bytes);
    for (size_t i = 0; i < sizeof scale / sizeof *scale; i++) {
        struct attention_shape shape = shape_of(size);
        shape.scale = scale[i];
        for (const struct attention_kernel *kernel = table; kernel->name; kernel++) {
            cr_assert(run_once(kernel, &trial, NULL, &shape) == cudaSuccess);
            cr_assert(device_buffer_download(&trial.device[3], O) == cudaSuccess);
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
                              "%s: scale %g, O[%d][%d] is %g, not %g", kernel->name, (double)scale[i], row, c,
                              (double)O[row * 12 + c], sum[c] / l);
            }
        }
    }
    free(O);
    trial_destroy(&trial);
}

static inline void refused(const struct attention_kernel *table, const struct trial *trial,
                           struct attention_shape shape, const char *words)
{
    for (const struct attention_kernel *kernel = table; kernel->name; kernel++) {
        refusal_clear();
        const cudaError_t status =
            kernel->run(trial->device[0].data, trial->device[1].data, trial->device[2].data,
                        trial->device[3].data, trial->device[4].data, trial->device[4].data, &shape, NULL);
        cr_expect(status == cudaErrorInvalidValue, "%s: %s: %s", kernel->name, words,
                  cudaGetErrorString(status));
        cr_expect(strstr(refusal(), words) != NULL, "%s: '%s' does not say '%s'", kernel->name, refusal(),
                  words);
    }
    cr_assert(cudaDeviceSynchronize() == cudaSuccess);
}

static inline void check_refused_shapes(const struct attention_kernel *table)
{
    const struct size size = {1, 2, 1, 5, 7, 16};
    struct trial trial = trial_of(size);
    const struct attention_shape good = shape_of(size);
    struct attention_shape shape;

    shape = good, shape.head_dim = 0;
    refused(table, &trial, shape, "head_dim is 0; this kernel takes 1 .. 128");
    shape = good, shape.head_dim = 129;
    refused(table, &trial, shape, "head_dim is 129; this kernel takes 1 .. 128");
    shape = good, shape.head_dim = 4096;
    refused(table, &trial, shape, "head_dim is 4096");
    shape = good, shape.causal = true;
    refused(table, &trial, shape, "causal");
    shape = good, shape.heads = 3, shape.kv_heads = 2;
    refused(table, &trial, shape, "kv_heads is 2");
    shape = good, shape.kv_heads = 0;
    refused(table, &trial, shape, "kv_heads is 0");
    shape = good, shape.seq_q = -1;
    refused(table, &trial, shape, "seq_q is -1");
    shape = good, shape.seq_kv = INT_MAX;
    refused(table, &trial, shape, "seq_kv is 2147483647");
    shape = good, shape.scale = NAN;
    refused(table, &trial, shape, "scale");
    trial_destroy(&trial);
}

static inline void check_refused_pointers(const struct attention_kernel *table, struct size size)
{
    struct trial trial = trial_of(size);
    const struct attention_shape shape = shape_of(size);
    for (const struct attention_kernel *kernel = table; kernel->name; kernel++) {
        float *Q = trial.device[0].data, *K = trial.device[1].data, *V = trial.device[2].data;
        float *O = trial.device[3].data, *LSE = trial.device[4].data;
        const cudaError_t bad = cudaErrorInvalidValue;
        void *workspace = NULL;
        if (kernel->workspace && kernel->workspace(&shape) > 0)
            cr_assert(cudaMalloc(&workspace, kernel->workspace(&shape)) == cudaSuccess);
        cr_expect(kernel->run(NULL, K, V, O, LSE, workspace, &shape, NULL) == bad, "%s: Q null",
                  kernel->name);
        cr_expect(kernel->run(Q, NULL, V, O, LSE, workspace, &shape, NULL) == bad, "%s: K null",
                  kernel->name);
        cr_expect(kernel->run(Q, K, NULL, O, LSE, workspace, &shape, NULL) == bad, "%s: V null",
                  kernel->name);
        cr_expect(kernel->run(Q, K, V, NULL, LSE, workspace, &shape, NULL) == bad, "%s: O null",
                  kernel->name);
        cr_expect(kernel->run(Q, K, V, O, LSE, workspace, NULL, NULL) == bad, "%s: shape null", kernel->name);
        cr_expect(kernel->run(Q, K, V, Q, LSE, workspace, &shape, NULL) == bad, "%s: O on Q", kernel->name);
        const float *askew = (const float *)((const char *)K + 2);
        cr_expect(kernel->run(Q, askew, V, O, LSE, workspace, &shape, NULL) == bad, "%s: K askew",
                  kernel->name);
        if (workspace != NULL)
            cr_expect(kernel->run(Q, K, V, O, LSE, NULL, &shape, NULL) == bad, "%s: workspace null",
                      kernel->name);
        cr_assert(cudaDeviceSynchronize() == cudaSuccess);
        cr_assert(cudaFree(workspace) == cudaSuccess);
    }
    trial_destroy(&trial);
}

#endif
