/*
 * Steps 04, 05 and 06 solve this problem: scaled dot-product attention, forward.
 *
 *     S = scale · Q·Kᵀ   P = softmax(S) over the keys a query sees    O = P·V    LSE = ln sum exp S
 *
 * For each batch and head: Q and O are [batch, heads, seq_q, head_dim], K and V [batch, kv_heads,
 * seq_kv, head_dim], LSE [batch, heads, seq_q]; all row-major and contiguous. Query head h reads
 * key/value head h / (heads / kv_heads). Causal: query i sees key j when j <= i + seq_kv - seq_q
 * (aligned to the bottom right: the last query sees every key). A query that sees no key has O = 0
 * and LSE = -inf. An empty O is success with nothing done.
 *
 * What few kernels take, and a row says that it does. With a window, a causal query sees no more
 * than the last `window` of those keys. With a soft cap, a score s = scale · q·k becomes
 * cap · tanh(s / cap). With ALiBi, score (i, j) of head h then falls by slope · |i + seq_kv - seq_q
 * - j|, where slope = 2^(-8·(h + 1) / heads). With lengths, int [batch], sequence b has lengths[b]
 * keys, 0 .. seq_kv; that replaces seq_kv in all of the above, and what K and V hold past it may be
 * anything, infinities too.
 *
 * With pages, int [batch, ceil(seq_kv / page_size)], K and V are pools [pool_pages, kv_heads,
 * page_size, head_dim]: key j of sequence b is row j % page_size of page pages[b][j / page_size].
 * Entries past a sequence's last key, and pages that no sequence has, may be anything. The host
 * cannot see into these arrays, so the kernel does: a length outside of 0 .. seq_kv makes every row
 * of its sequence NaN, in O and LSE, and an entry outside of 0 .. pool_pages - 1 every row that
 * sees a key of that page. Nothing is read there. (Rows of `variants` trust their lengths.)
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
 * A call has the shape, the element type of Q, K, V and O, the arrays in device memory, and the
 * stream. LSE may be null when the caller does not want it. workspace has as many bytes as the
 * kernel's row asks for (aligned to 256, contents undefined); it is null when the row asks for
 * none.
 */
struct attention {
    int batch, heads, kv_heads, seq_q, seq_kv, head_dim;
    bool causal, alibi;
    int window;         /* keys that a causal query sees; 0 for all */
    float scale;        /* usually 1 / sqrt(head_dim) */
    float soft_cap;     /* 0 for none */
    const int *lengths; /* null: each sequence has seq_kv keys */
    const int *pages;   /* null, and page_size 0: K and V are contiguous */
    int page_size;      /* a power of two from 16 to 256 */
    int pool_pages;
    enum tensor_type type;
    const void *Q, *K, *V;
    void *O;
    float *LSE;
    void *workspace;
    cudaStream_t stream;
};

/*
 * Every attention kernel's C function has this type. It launches on the call's stream and does not
 * wait. attention_run() calls it, after checking the call and finding O not empty.
 */
typedef cudaError_t attention_fn(const struct attention *call);

/* Returns the bytes of workspace that a kernel needs for a call. It may be asked about any call,
 * even one that attention_run() would refuse. */
typedef size_t attention_workspace_fn(const struct attention *call);

/* A cost function is asked only about calls that attention_run() accepts and whose O is not empty.
 * The harness answers for the others. */
struct attention_kernel;
typedef struct cost attention_cost_fn(const struct attention_kernel *row,
                                      const struct attention *call);

/* One row of a step's table says what the kernel can do. attention_run() refuses the rest. */
struct attention_kernel {
    struct kernel about;
    attention_fn *launch;
    attention_workspace_fn *workspace; /* null for none */
    /* Returns the bytes of shared memory that a block needs. It is null where every device has
     * enough. */
    size_t (*shared)(const struct attention *call);
    attention_cost_fn *cost;
    unsigned types;        /* bits 1 << enum tensor_type; 0 for TENSOR_F32 alone */
    int max_head_dim;      /* 1 .. this */
    int head_dim_multiple; /* head_dim must be a multiple of this; 0 allows any */
    int alignment;         /* in bytes, of Q, K, V and O; 0 means an element's */
    bool causal;           /* the kernel has a causal mask */
    bool variants;         /* it takes a window, a soft cap, ALiBi and lengths */
    bool lengths, paged;   /* it takes lengths, and pages */
    bool positive_scale;   /* it takes no scale that is zero or negative */
    /* The cost depends on the queries and keys of a tile, at head_dim up to 64 and beyond. */
    int Br[2], Bc[2];
};

/* A table's row has the kernel's name, file and idea, then the rest of its members. */
#define ATTENTION_ROW(n, f, i, ...)                                                                \
    {                                                                                              \
        ABOUT(n, f, i), .launch = attention_##n, __VA_ARGS__                                       \
    }

/* Returns batch * heads * seq, SIZE_MAX if it is more, 0 if one of them is negative; and the rows
 * of Q. */
size_t attention_rows(int batch, int heads, int seq);
size_t attention_query_rows(const struct attention *call);

/* These check what any kernel requires of a shape, and what the row's limits exclude, without the
 * arrays. A problem with the same shapes uses them, too. */
cudaError_t attention_check_shape(const struct attention *call);
cudaError_t attention_check_limits(const struct attention_kernel *row,
                                   const struct attention *call);

/*
 * Runs the kernel. Returns what the kernel's function returns, or refuses with a message
 * (refusal.h): cudaErrorNotSupported for a device that is too old or has too little shared memory;
 * cudaErrorInvalidValue for a null call, what the row's limits exclude, negative batch, heads,
 * seq_q, seq_kv or kv_heads, kv_heads = 0 or heads not a multiple of kv_heads (unless heads is 0),
 * more than MAX_EXTENT rows of Q or of K, a page_size that is no power of two from 16 to 256,
 * a negative pool_pages, a window without a mask, a soft cap or window that is negative, a scale
 * whose product with log2 e is not finite, a null or misaligned pointer to something that is not
 * empty, outputs or a workspace that overlap anything else. An empty O is success with nothing
 * launched.
 */
cudaError_t attention_run(const struct attention_kernel *row, const struct attention *call);

/* As attention_run, at sizes as the harness knows them and on arrays in the order of its tensors.
 */
cudaError_t attention_run_sizes(const struct kernel *kernel, const long long sizes[MAX_SIZES],
                                void *const *device, void *workspace, cudaStream_t stream);

/* Returns the bytes of workspace that the kernel asks for at such sizes. */
size_t attention_workspace(const struct kernel *kernel, const long long sizes[MAX_SIZES]);

/* These are the sizes as the harness knows them. On the command line, kv_heads 0 means "as heads",
 * and seq_q 0 and seq_kv 0 mean "as seq". */
enum attention_size {
    ATTENTION_BATCH,
    ATTENTION_HEADS,
    ATTENTION_KV_HEADS,
    ATTENTION_SEQ,
    ATTENTION_SEQ_Q,
    ATTENTION_SEQ_KV,
    ATTENTION_HEAD_DIM,
    ATTENTION_CAUSAL,
    ATTENTION_TYPE, /* enum tensor_type */
    ATTENTION_WINDOW,
    ATTENTION_SOFT_CAP,
    ATTENTION_ALIBI,
    ATTENTION_LENGTHS, /* whether there are lengths */
    ATTENTION_PAGE     /* keys of a page; 0: K and V are contiguous */
};

/* Returns the call that these sizes describe, with the usual scale and no arrays yet. */
struct attention attention_of(const long long sizes[MAX_SIZES]);

extern const struct size_option attention_sizes[];

extern const struct problem attention_problem;

#ifdef __cplusplus
}
#endif

#endif
