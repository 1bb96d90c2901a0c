/* test_04, test_05 and test_06 share these tests: the contract is the same, whatever the element
 * type. */
#ifndef TESTS_ATTENTION_CASES_H
#define TESTS_ATTENTION_CASES_H

#include "problems/attention.h"
#include "tests/support/harness.h"
#include "tests/support/ladder.h"
#include "harness/refusal.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most cases leave out the last two fields: no mask, single precision. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct size {
    long long batch, heads, kv_heads, seq_q, seq_kv, head_dim;
    bool causal;
    enum tensor_type type;
};

#define SIZES(size)                                                                                \
    ((const long long[MAX_SIZES]){[ATTENTION_BATCH] = (size).batch,                                \
                                  [ATTENTION_HEADS] = (size).heads,                                \
                                  [ATTENTION_KV_HEADS] = (size).kv_heads,                          \
                                  [ATTENTION_SEQ_Q] = (size).seq_q,                                \
                                  [ATTENTION_SEQ_KV] = (size).seq_kv,                              \
                                  [ATTENTION_HEAD_DIM] = (size).head_dim,                          \
                                  [ATTENTION_CAUSAL] = (size).causal,                              \
                                  [ATTENTION_TYPE] = (size).type})

static inline struct attention call_of(struct size size)
{
    return attention_of(SIZES(size));
}

static inline long long tiles(long long n, long long tile)
{
    return (n + tile - 1) / tile;
}

static inline void check_sizes(const struct attention_kernel *table, struct size size,
                               enum input_kind kind, uint64_t seed, size_t offset)
{
    ladder_check(&attention_problem, table, SIZES(size), kind, seed, offset);
}

/* Returns a problem of more tiles than a CPU backend's multiprocessors, with other heads, mask and
 * lengths, that a kernel runs with the same head_dim and type. */
static inline struct size another(struct size size, bool causal)
{
    size.heads = 10;
    size.kv_heads = 5;
    size.seq_q = size.seq_q < 20 ? size.seq_q + 3 : 9;
    size.seq_kv = size.seq_kv < 30 ? size.seq_kv + 29 : 37;
    size.causal = causal && !size.causal;
    return size;
}

/* A launcher must, whatever the numbers, return every launch's error, keep to its stream, and leave
 * nothing over from one launch to the next. */
static inline void check_launches(const struct attention_kernel *table, const struct size *cases,
                                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const long long *const sizes = SIZES(cases[i]);
        ladder_returns_errors(&attention_problem, table, sizes);
        ladder_streams(&attention_problem, table, sizes, SIZES(another(cases[i], table->causal)));
    }
    ladder_older_errors(&attention_problem, table, SIZES(cases[0]));
}

static inline void check_many_launches(const struct attention_kernel *table, struct size size)
{
    ladder_launches(&attention_problem, table, SIZES(size));
}

static inline void check_one_off(const struct attention_kernel *table, struct size size)
{
    ladder_one_off(&attention_problem, table, SIZES(size), sizeof(float));
}

static inline void check_costs(const struct attention_kernel *table, const struct size *cases,
                               size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ladder_costs(&attention_problem, table, SIZES(cases[i]));
    }
}

static inline void check_traffic(const struct attention_kernel *table, struct size size,
                                 const struct traffic *expected)
{
    ladder_traffic(&attention_problem, table, SIZES(size), expected);
}

static inline bool count_of(const struct attention_kernel *table, const char *name,
                            struct size size, struct counters *counters)
{
    return ladder_count(&attention_problem, table, name, SIZES(size), counters);
}

/* ---------------------------------------------------------------------------------------------- */
/* Past the command line: what it cannot ask for */

static inline struct trial trial_with(struct size size, enum input_kind kind, uint64_t seed)
{
    return ladder_trial(&attention_problem, SIZES(size), kind, seed, 0);
}

enum { Q_AT, K_AT, V_AT, O_AT, LSE_AT };

/* Returns the call of the trial's sizes on its arrays, to be passed on with changes. */
static inline struct attention call_on(const struct trial *trial)
{
    struct attention call = attention_of(trial->sizes);
    call.Q = trial->device[Q_AT].data;
    call.K = trial->device[K_AT].data;
    call.V = trial->device[V_AT].data;
    call.O = trial->device[O_AT].data;
    call.LSE = trial->device[LSE_AT].data;
    return call;
}

/* Returns the call with another Q, K, V or O. */
static inline struct attention with_array(struct attention call, int at, void *array)
{
    if (at == O_AT)
        call.O = array;
    else
        *(const void **[]){&call.Q, &call.K, &call.V}[at] = array;
    return call;
}

/* Runs a kernel with the workspace that it asks for, and waits. */
static inline cudaError_t run_once(const struct attention_kernel *row, struct attention call)
{
    const size_t bytes = row->workspace ? row->workspace(&call) : 0;
    struct device_buffer workspace = {0};
    cr_assert(device_buffer_create(&workspace, bytes, 0) == cudaSuccess);
    call.workspace = bytes ? workspace.data : NULL;
    cudaError_t status = attention_run(row, &call);
    if (status == cudaSuccess)
        status = cudaDeviceSynchronize();
    device_buffer_destroy(&workspace);
    return status;
}

/* The calls need more blocks than gridDim.y and gridDim.z can count, along each side that a grid
 * may have. The longest takes a second per kernel, so it runs only without a mask. */
static inline void check_many_blocks(const struct attention_kernel *table, enum tensor_type type)
{
    static const struct size size[] = {
        {70000, 1, 1, 3, 5, 8}, {1, 70000, 35000, 3, 5, 16}, {1, 1, 1, 12600000, 3, 8}};
    if (!ladder_full_size_or_skip("more than 65535 blocks"))
        return;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (int causal = 0; causal <= (table->causal && size[i].seq_q == 3); causal++) {
            struct size typed = size[i];
            typed.type = type;
            typed.causal = causal;
            check_sizes(table, typed, INPUTS_NORMAL, 901 + i, 0);
        }
}

/* Q, K, V and O have more than 2^31 elements each. The last sequence is checked. */
static inline void check_past_2_to_the_31_elements(const struct attention_kernel *table,
                                                   enum tensor_type type)
{
    enum { SEQ = 4, HEAD_DIM = 128 };
    const struct size last = {1, 1, 1, SEQ, SEQ, HEAD_DIM, false, type};
    struct size whole = last;
    whole.batch = (1ll << 31) / (SEQ * HEAD_DIM) + 9;
    ladder_past_2_to_the_31(&attention_problem, table, SIZES(whole), SIZES(last),
                            (int[]){0x3c, 0x3c, 0x3c});
}

/* Each kernel must refuse the call with a message that contains `words`; but how much workspace it
 * would take may be asked. */
static inline void expect_refused(const struct attention_kernel *table,
                                  const struct attention *call, const char *words)
{
    EACH_KERNEL (row, table) {
        if (row->workspace && call)
            row->workspace(call);
        refusal_clear();
        const cudaError_t status = attention_run(row, call);
        cr_expect(status == cudaErrorInvalidValue, "%s: %s: %s", row->about.name, words,
                  cudaGetErrorString(status));
        cr_expect(strstr(refusal(), words) != NULL, "%s: '%s' does not say '%s'", row->about.name,
                  refusal(), words);
    }
    cr_assert(cudaDeviceSynchronize() == cudaSuccess);
}

/* The named kernel must be skipped with these words on a device that lacks what it needs. */
static inline void expect_skipped(const struct attention_kernel *table, const char *name,
                                  struct size size, const char *words)
{
    const struct kernel *kernel = ladder_find(&attention_problem, table, name);
    if (!ladder_wants(kernel))
        return;
    struct trial trial = trial_with(size, INPUTS_NORMAL, 105);
    const struct verdict verdict = trial_run(&trial, kernel);
    cr_expect(verdict.status == VERDICT_SKIPPED && strstr(verdict.reason, words), "status %d: %s",
              (int)verdict.status, verdict.reason);
    trial_destroy(&trial);
}

/* Checks the limits that all kernels of these steps share. */
static inline void check_refused_calls(const struct attention_kernel *table, enum tensor_type type)
{
    struct trial trial =
        trial_with((struct size){1, 2, 1, 5, 7, 16, .type = type}, INPUTS_NORMAL, 5);
    const struct attention good = call_on(&trial);
    struct attention call = good;
    expect_refused(table, NULL, "the call is null");
    call.head_dim = 0;
    expect_refused(table, &call, "head_dim is 0; this kernel takes 1 .. 128");
    call.head_dim = 129;
    expect_refused(table, &call, "head_dim is 129; this kernel takes 1 .. 128");
    call.head_dim = 4096;
    expect_refused(table, &call, "head_dim is 4096");
    call = good, call.heads = 3, call.kv_heads = 2;
    expect_refused(table, &call, "kv_heads is 2");
    call = good, call.kv_heads = 0;
    expect_refused(table, &call, "kv_heads is 0");
    call = good, call.heads = 0, call.kv_heads = -1;
    expect_refused(table, &call, "kv_heads is -1");
    call = good, call.seq_q = -1;
    expect_refused(table, &call, "seq_q is -1");
    call = good, call.batch = -1;
    expect_refused(table, &call, "batch is -1");
    call = good, call.seq_kv = -1;
    expect_refused(table, &call, "seq_kv is -1");
    call = good, call.batch = 1 << 11, call.heads = call.kv_heads = call.seq_q = 1 << 10;
    expect_refused(table, &call, "batch * heads * seq_q is 2147483648");
    call.seq_q = 1, call.seq_kv = 1 << 10;
    expect_refused(table, &call, "batch * kv_heads * seq_kv is 2147483648");
    /* modulo 2^64 this is less than an int counts */
    call = good, call.batch = 825415931, call.heads = 1760095721, call.seq_q = 734678443;
    expect_refused(table, &call, "batch * heads * seq_q is 1067");
    call = good, call.type = TENSOR_TYPES;
    expect_refused(table, &call, "type is unknown");
    call = good, call.seq_kv = INT_MAX;
    expect_refused(table, &call, "seq_kv is 2147483647");
    call = good, call.scale = NAN;
    expect_refused(table, &call, "scale is");
    call = good, call.type = TENSOR_BF16;
    expect_refused(table, &call, "type is bf16");
    call = good, call.causal = true;
    if (!table->causal)
        expect_refused(table, &call, "causal");
    call = good, call.seq_q = 0, call.Q = NULL;
    EACH_KERNEL (row, table)
        cr_expect(attention_run(row, &call) == cudaSuccess, "%s: no query", row->about.name);
    trial_destroy(&trial);
}

/* Only LSE may be null. */
static inline void check_refused_pointers(const struct attention_kernel *table, struct size size)
{
    ladder_refused_arrays(&attention_problem, table, SIZES(size), LSE_AT);
}

#endif
