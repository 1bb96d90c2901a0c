/* ---- the check: softmax(scale · Q·Kᵀ)·V and LSE against double precision ---- */

#include "check.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

static const size_t element_bytes = type == TENSOR_F32 ? 4 : 2;

static double element(const void *x, size_t index)
{
    if (type == TENSOR_F32)
        return ((const float *)x)[index];
    if (type == TENSOR_F16)
        return __half2float(((const __half *)x)[index]);
    return __bfloat162float(((const __nv_bfloat16 *)x)[index]);
}

/* Copies count numbers in the kernel's element type, and rounds the originals to it as well. */
static void *to_type(float *x, size_t count)
{
    void *rounded = malloc(count * element_bytes);
    for (size_t i = 0; i < count; i++) {
        if (type == TENSOR_F32)
            ((float *)rounded)[i] = x[i];
        else if (type == TENSOR_F16)
            ((__half *)rounded)[i] = __float2half(x[i]);
        else
            ((__nv_bfloat16 *)rounded)[i] = __float2bfloat16(x[i]);
        x[i] = (float)element(rounded, i);
    }
    return rounded;
}

/* Computes one row of O, and its LSE, from the rows Q[i], K and V of its head. */
static double reference(double *O, const float *Q, const float *K, const float *V, int visible,
                        float scale)
{
    double *score = (double *)malloc((visible + 1) * sizeof *score), largest = -INFINITY, l = 0.0;
    for (int j = 0; j < visible; j++) {
        score[j] = 0.0;
        for (int c = 0; c < head_dim; c++)
            score[j] += (double)Q[c] * K[(size_t)j * head_dim + c];
        score[j] *= scale;
        largest = fmax(largest, score[j]);
    }
    for (int c = 0; c < head_dim; c++)
        O[c] = 0.0;
    for (int j = 0; j < visible; j++) {
        const double p = exp(score[j] - largest);
        l += p;
        for (int c = 0; c < head_dim; c++)
            O[c] += p * V[(size_t)j * head_dim + c];
    }
    for (int c = 0; c < head_dim && visible > 0; c++)
        O[c] /= l;
    free(score);
    return largest + log(l);
}

static bool check(void)
{
    const size_t queries = (size_t)batch * heads * seq_q, keys = (size_t)batch * kv_heads * seq_kv;
    const size_t d = head_dim;
    float *Q = numbers(queries * d, 1), *K = numbers(keys * d, 2), *V = numbers(keys * d, 3);

    struct attention call;
    memset(&call, 0, sizeof call);
    call.batch = batch, call.heads = heads, call.kv_heads = kv_heads;
    call.seq_q = seq_q, call.seq_kv = seq_kv, call.head_dim = head_dim, call.causal = causal;
    call.scale = 1.0f / sqrtf((float)head_dim);
    call.type = type;
    call.Q = on_device(to_type(Q, queries * d), queries * d * element_bytes);
    call.K = on_device(to_type(K, keys * d), keys * d * element_bytes);
    call.V = on_device(to_type(V, keys * d), keys * d * element_bytes);
    call.O = on_device(NULL, queries * d * element_bytes);
    call.LSE = (float *)on_device(NULL, queries * sizeof(float));
    const size_t workspace_bytes = WORKSPACE;
    call.workspace = workspace_bytes > 0 ? on_device(NULL, workspace_bytes) : NULL;

    must(KERNEL(&call), "the launch");
    must(cudaDeviceSynchronize(), "the kernel");
    const void *O = on_host(call.O, queries * d * element_bytes);
    const float *LSE = (const float *)on_host(call.LSE, queries * sizeof(float));

    /*
     * |Q|, |K| and |V| are at most 1. So scores are at most sqrt(d) and have d roundings, P has
     * twice their error, and the sums over the keys have seq_kv roundings more. The short types
     * round P and O.
     */
    const double single = (2.0 * d * sqrt((double)d) + 2.0 * seq_kv + 32.0) * 0x1p-24;
    const double rounding = type == TENSOR_F32 ? 0.0 : type == TENSOR_F16 ? 0x1p-11 : 0x1p-8;
    const double bound = single + 3.0 * rounding;
    double *expected = (double *)malloc(d * sizeof *expected);
    for (size_t query = 0; query < queries; query++) {
        const size_t head = query / seq_q, kv_head = head / (heads / kv_heads);
        const int last = (int)(query % seq_q) + seq_kv - seq_q;
        const int visible = !causal ? seq_kv : last < 0 ? 0 : last + 1;
        const size_t first_key = kv_head * seq_kv * d;
        const double expected_LSE =
            reference(expected, Q + query * d, K + first_key, V + first_key, visible, call.scale);
        for (size_t c = 0; c < d; c++)
            if (wrong("O", query * d + c, element(O, query * d + c), expected[c], bound))
                return false;
        if (visible > 0 && wrong("LSE", query, LSE[query], expected_LSE, single))
            return false;
    }
    printf("PASS: NAME, %d x %d heads, %d queries, %d keys, head_dim %d%s\n", batch, heads, seq_q,
           seq_kv, head_dim, causal ? ", causal" : "");
    return true;
}
