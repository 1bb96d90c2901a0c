/*
 * Steps 05 and 06 solve this problem on their ladders "backward": the gradients of scaled
 * dot-product attention (attention.h). Of a loss, dO is the gradient with respect to O, and
 *
 *     P = e^(scale · Q·Kᵀ - LSE)   dP = dO·Vᵀ   D = rowsum(dO∘O)   dS = P∘(dP - D)
 *     dV = Pᵀ·dO                   dK = scale · dSᵀ·Q             dQ = scale · dS·K
 *
 * For each batch and head: Q, O, dO and dQ are [batch, heads, seq_q, head_dim], K, V, dK and dV
 * [batch, kv_heads, seq_kv, head_dim], LSE [batch, heads, seq_q]; all row-major and contiguous. O
 * and LSE are what the forward pass left. Query heads that share a key/value head are a group: dK
 * and dV are sums over its heads, too. Causal means what it means forward. A query whose LSE is
 * -inf saw no key, and adds nothing to any gradient if its Q and dO are finite. A NaN in a query's
 * scores makes all that it adds NaN. With a mask a NaN may go further, from a query to keys that it
 * does not see, and from a key to queries that do not see it, because 0 * NaN is NaN. An infinity
 * in Q, K, V or dO may do what a NaN does.
 */
#ifndef COMMON_ATTENTION_BACKWARD_H
#define COMMON_ATTENTION_BACKWARD_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The call's LSE is float; the other arrays have its type. The workspace is as in attention.h. */
struct attention_backward {
    int batch, heads, kv_heads, seq_q, seq_kv, head_dim;
    bool causal;
    float scale; /* as it was forward */
    enum tensor_type type;
    const void *Q, *K, *V, *O;
    const float *LSE;
    const void *dO;
    void *dQ, *dK, *dV;
    void *workspace;
    cudaStream_t stream;
};

/* Every kernel's C function has this type. It launches on the call's stream and does not wait.
 * attention_backward_run() calls it, after checking the call, with at least one query and key. */
typedef cudaError_t attention_backward_fn(const struct attention_backward *call);

/* Returns the bytes of workspace that a kernel needs for a call: for any call. */
typedef size_t attention_backward_workspace_fn(const struct attention_backward *call);

/* A cost function is asked only about calls with at least one query and key that
 * attention_backward_run() accepts. The harness answers for the others. */
typedef struct cost attention_backward_cost_fn(const struct attention_backward *call);

/* One row of a step's table says what the kernel can do. attention_backward_run() refuses the rest.
 * The limits mean what they mean in struct attention_kernel. */
struct attention_backward_kernel {
    struct kernel about;
    attention_backward_fn *launch;
    attention_backward_workspace_fn *workspace; /* null for none */
    attention_backward_cost_fn *cost;
    unsigned types;
    int max_head_dim;
    int head_dim_multiple;
    int alignment; /* in bytes, of all arrays but LSE; 0 means an element's */
    bool causal;
};

#define ATTENTION_BACKWARD_ROW(n, f, i, ...)                                                       \
    {                                                                                              \
        ABOUT(n, f, i), .launch = attention_##n, __VA_ARGS__                                       \
    }

/* Returns the rows of dQ, and of dK, over all batches and heads. */
size_t attention_backward_query_rows(const struct attention_backward *call);
size_t attention_backward_key_rows(const struct attention_backward *call);

/*
 * Runs the kernel. Returns what the kernel's function returns, or refuses with a message
 * (refusal.h) what attention_run() refuses, a null LSE, and outputs that overlap anything else.
 * Without queries dK and dV are 0, and dQ is without keys: no kernel is asked.
 */
cudaError_t attention_backward_run(const struct attention_backward_kernel *row,
                                   const struct attention_backward *call);

/* The sizes are those of enum attention_size, the tensors Q, K, V, O, LSE, dO, dQ, dK and dV. */
cudaError_t attention_backward_run_sizes(const struct kernel *kernel,
                                         const long long sizes[MAX_SIZES], void *const *device,
                                         void *workspace, cudaStream_t stream);

size_t attention_backward_workspace(const struct kernel *kernel, const long long sizes[MAX_SIZES]);

/* Returns the call that these sizes describe, with the usual scale and no arrays yet. */
struct attention_backward attention_backward_of(const long long sizes[MAX_SIZES]);

extern const struct problem attention_backward_problem;

#ifdef __cplusplus
}
#endif

#endif
