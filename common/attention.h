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

#include "problem.h"

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct attention_shape {
    int batch, heads, kv_heads, seq_q, seq_kv, head_dim;
    bool causal;
    float scale; /* usually 1 / sqrt(head_dim) */
};

/*
 * What every single-precision attention kernel's C function looks like. All pointers are device
 * pointers; LSE may be null when it is not wanted; workspace is as many bytes as the kernel's row
 * asks for (aligned to 256, contents undefined), null when it asks for none. Launched on `stream`
 * and not waited for.
 */
typedef cudaError_t attention_fn(const float *Q, const float *K, const float *V, float *O,
                                 float *LSE, void *workspace, const struct attention_shape *shape,
                                 cudaStream_t stream);

/* The same in half precision. C has no half type: elements are IEEE binary16 by their bits. */
typedef cudaError_t attention_half_fn(const uint16_t *Q, const uint16_t *K, const uint16_t *V,
                                      uint16_t *O, float *LSE, void *workspace,
                                      const struct attention_shape *shape, cudaStream_t stream);

/* Bytes of workspace that a kernel needs for a shape it accepts. */
typedef size_t attention_workspace_fn(const struct attention_shape *shape);

/* One row of a step's table; the table ends with a row whose name is null. workspace is null for
 * none. */
struct attention_kernel {
    const char *name;
    const char *idea;
    attention_fn *run;
    attention_workspace_fn *workspace;
};

struct attention_half_kernel {
    const char *name;
    const char *idea;
    attention_half_fn *run;
    attention_workspace_fn *workspace;
};

/* What a kernel can do beyond the plain problem; attention_check_arguments() refuses the rest with
 * a sentence. */
struct attention_limits {
    int max_head_dim;      /* 1 .. this */
    int head_dim_multiple; /* head_dim must be a multiple of this; 1 for any */
    bool causal;           /* whether the kernel has a causal mask */
};

/* batch * heads * seq_q; 0 for a shape that is null or has a negative size, so that a workspace
 * function may ask. */
size_t attention_query_rows(const struct attention_shape *shape);

/*
 * Refuses (cudaErrorInvalidValue and a sentence, see refusal.h): a null shape; negative batch,
 * heads, seq_q or seq_kv; head_dim outside the limits; kv_heads < 1 or heads not a multiple of
 * kv_heads (unless heads is 0); more than INT_MAX rows of Q or of K over all heads; causal where
 * the limits have none; a scale that is not finite; a null or misaligned pointer to something that
 * is not empty (element_bytes is 4 or 2; LSE may be null; workspace is checked for
 * workspace_bytes); outputs or a workspace that overlap anything else.
 */
cudaError_t attention_check_arguments(const void *Q, const void *K, const void *V, const void *O,
                                      const float *LSE, const void *workspace,
                                      size_t workspace_bytes, const struct attention_shape *shape,
                                      size_t element_bytes, const struct attention_limits *limits);

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
    ATTENTION_CAUSAL
};

extern const struct problem attention_problem;      /* tables of struct attention_kernel */
extern const struct problem attention_half_problem; /* tables of struct attention_half_kernel */

#ifdef __cplusplus
}
#endif

#endif
