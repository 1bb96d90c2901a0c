/*
 * The problem of steps 04, 05 and 06: scaled dot-product attention, forward.
 *
 *     S = scale · Q·Kᵀ   P = softmax(S) over the keys a query sees    O = P·V    LSE = ln sum exp S
 *
 * For each batch and head: Q and O are [batch, heads, seq_q, head_dim], K and V [batch, kv_heads,
 * seq_kv, head_dim], LSE [batch, heads, seq_q]; all row-major and contiguous. Query head h reads
 * key/value head h / (heads / kv_heads). Causal: query i sees key j when j <= i + seq_kv - seq_q
 * (aligned to the bottom right: the last query sees every key). A query that sees no key has O = 0
 * and LSE = -inf. An empty O is success with nothing done.
 */
#ifndef COMMON_ATTENTION_H
#define COMMON_ATTENTION_H

#include "harness/problem.h"

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One call: the shape, the element type of Q, K, V and O, the arrays in device memory, and where to
 * run. LSE may be null when it is not wanted. workspace is as many bytes as the kernel's row asks
 * for (aligned to 256, contents undefined), null when it asks for none.
 */
struct attention {
    int batch, heads, kv_heads, seq_q, seq_kv, head_dim;
    bool causal;
    float scale; /* usually 1 / sqrt(head_dim) */
    enum tensor_type type;
    const void *Q, *K, *V;
    void *O;
    float *LSE;
    void *workspace;
    cudaStream_t stream;
};

/*
 * What every attention kernel's C function looks like: launches on the call's stream and does not
 * wait. Called by attention_run(), which has checked the call and found O not empty.
 */
typedef cudaError_t attention_fn(const struct attention *call);

/* Bytes of workspace that a kernel needs for a call. It may be asked about any call, also one that
 * attention_run() would refuse. */
typedef size_t attention_workspace_fn(const struct attention *call);

/* Asked about calls that attention_run() takes and whose O is not empty; the harness answers for
 * the others. */
struct attention_kernel;
typedef struct cost attention_cost_fn(const struct attention_kernel *row,
                                      const struct attention *call);

/* One row of a step's table: what the kernel can do, and what attention_run() refuses for it. */
struct attention_kernel {
    struct kernel about;
    attention_fn *launch;
    attention_workspace_fn *workspace; /* null for none */
    /* Bytes of shared memory that a block needs; null where every device has them. */
    size_t (*shared)(const struct attention *call);
    attention_cost_fn *cost;
    unsigned types;        /* bits 1 << enum tensor_type; 0 for TENSOR_F32 alone */
    int max_head_dim;      /* 1 .. this */
    int head_dim_multiple; /* head_dim must be a multiple of it; 0 for any */
    int alignment;         /* bytes, of Q, K, V and O; 0 for that of an element */
    bool causal;           /* has a causal mask */
    bool positive_scale;   /* takes no scale that is zero or negative */
    /* For the cost: queries and keys of a tile, at head_dim up to 64 and beyond. */
    int Br[2], Bc[2];
};

/* A row of a table: the kernel's name, file and idea, then what else is true of it. */
#define ATTENTION_ROW(n, f, i, ...)                                                                \
    {                                                                                              \
        ABOUT(n, f, i), .launch = attention_##n, __VA_ARGS__                                       \
    }

/* batch * heads * seq_q; 0 where one of them is negative. */
size_t attention_query_rows(const struct attention *call);

/*
 * Runs the kernel. Returns what its function returns, or refuses with a message (refusal.h):
 * cudaErrorNotSupported for a device that is too old or has too little shared memory;
 * cudaErrorInvalidValue for a null call, what the row's limits exclude, negative batch, heads,
 * seq_q or seq_kv, kv_heads < 1 or heads not a multiple of kv_heads (unless heads is 0), more than
 * MAX_EXTENT rows of Q or of K over all heads, a scale whose product with log2 e is not finite, a
 * null or misaligned pointer to something that is not empty, outputs or a workspace that overlap
 * anything else. An empty O is success with nothing launched.
 */
cudaError_t attention_run(const struct attention_kernel *row, const struct attention *call);

/* Sizes as the harness knows them. kv_heads 0, seq_q 0 and seq_kv 0 on the command line mean "as
 * heads" and "as seq". */
enum attention_size {
    ATTENTION_BATCH,
    ATTENTION_HEADS,
    ATTENTION_KV_HEADS,
    ATTENTION_SEQ,
    ATTENTION_SEQ_Q,
    ATTENTION_SEQ_KV,
    ATTENTION_HEAD_DIM,
    ATTENTION_CAUSAL,
    ATTENTION_TYPE /* enum tensor_type */
};

/* The call that these sizes describe, with the usual scale and no arrays yet. */
struct attention attention_of(const long long sizes[MAX_SIZES]);

extern const struct problem attention_problem;

#ifdef __cplusplus
}
#endif

#endif
