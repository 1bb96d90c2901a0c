/* ---- the check: softmax(scale · Q·Kᵀ)·V and LSE against the project's reference ---- */

#include "attention.cuh"
#include "check.cuh"

static bool check(void)
{
    const size_t queries = (size_t)batch * heads * seq_q, keys = (size_t)batch * kv_heads * seq_kv;
    const size_t d = head_dim, bytes = d * tensor_element_bytes(type);
    const void *const host[] = {to_type(numbers(queries * d, 1), queries * d),
                                to_type(numbers(keys * d, 2), keys * d),
                                to_type(numbers(keys * d, 3), keys * d)};

    struct attention call;
    memset(&call, 0, sizeof call);
    call.batch = batch, call.heads = heads, call.kv_heads = kv_heads;
    call.seq_q = seq_q, call.seq_kv = seq_kv, call.head_dim = head_dim, call.causal = causal;
    call.window = window, call.soft_cap = (float)soft_cap, call.alibi = alibi;
    call.scale = 1.0f / sqrtf((float)head_dim);
    call.type = type;
    call.Q = on_device(host[0], queries * bytes);
    call.K = on_device(host[1], keys * bytes);
    call.V = on_device(host[2], keys * bytes);
    call.O = on_device(NULL, queries * bytes);
    call.LSE = (float *)on_device(NULL, queries * sizeof(float));
    const size_t workspace_bytes = WORKSPACE;
    call.workspace = workspace_bytes > 0 ? on_device(NULL, workspace_bytes) : NULL;

    must(KERNEL(&call), "the launch");
    must(cudaDeviceSynchronize(), "the kernel");
    const void *O = on_host(call.O, queries * bytes);
    const void *LSE = on_host(call.LSE, queries * sizeof(float));

    double *value = doubles(d), *scale = doubles(d), value_LSE, scale_LSE;
    for (size_t query = 0; query < queries; query++) {
        reference::reference_rows(&call, host, &query, 1, value, scale, &value_LSE, &scale_LSE);
        if (wrong("O", type, O, query * d, d, value, scale, reference::bound_of(&call)) ||
            wrong("LSE", TENSOR_F32, LSE, query, 1, &value_LSE, &scale_LSE,
                  reference::bound_of(&call)))
            return false;
    }
    printf("PASS: NAME, %d x %d heads, %d queries, %d keys, head_dim %d%s\n", batch, heads, seq_q,
           seq_kv, head_dim, causal ? ", causal" : "");
    return true;
}
