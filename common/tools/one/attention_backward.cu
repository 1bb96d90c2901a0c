/* ---- the check: dQ, dK and dV against the project's reference ---- */

#include "attention.cuh"
#include "check.cuh"

/* Makes O and LSE as a forward pass leaves them. */
static void forward(reference::gradients *g, void *O, float *LSE)
{
    const size_t rows = attention_backward_query_rows(&g->call), d = head_dim;
    double *sum = doubles(d);
    for (size_t row = 0; row < rows; row++) {
        reference::query query;
        reference::begin_query(&query, g, row);
        double m = -INFINITY, l = 0.0;
        for (int pass = 0; pass < 2; pass++)
            for (size_t j = 0; j < query.visible; j++) {
                reference::key key;
                reference::begin_key(&key, g, query.kv_head * seq_kv + j);
                const double S = g->call.scale * reference::dot(query.q, key.k, d).value;
                if (pass == 0) {
                    m = fmax(m, S);
                    continue;
                }
                l += exp(S - m);
                for (size_t c = 0; c < d; c++)
                    sum[c] = (j > 0 ? sum[c] : 0.0) + exp(S - m) * key.v[c];
            }
        for (size_t c = 0; c < d; c++)
            tensor_store(O, type, row * d + c, l > 0.0 ? sum[c] / l : 0.0);
        LSE[row] = (float)(m + log(l));
    }
    free(sum);
}

static bool check(void)
{
    const size_t queries = (size_t)batch * heads * seq_q, keys = (size_t)batch * kv_heads * seq_kv;
    const size_t d = head_dim, bytes = d * tensor_element_bytes(type);
    void *Q = to_type(numbers(queries * d, 1), queries * d),
         *K = to_type(numbers(keys * d, 2), keys * d), *V = to_type(numbers(keys * d, 3), keys * d),
         *O = to_type(numbers(queries * d, 4), queries * d),
         *dO = to_type(numbers(queries * d, 5), queries * d);
    float *LSE = numbers(queries, 6);

    reference::gradients g;
    memset(&g, 0, sizeof g);
    g.end = (size_t)-1;
    g.call.batch = batch, g.call.heads = heads, g.call.kv_heads = kv_heads;
    g.call.seq_q = seq_q, g.call.seq_kv = seq_kv, g.call.head_dim = head_dim;
    g.call.causal = causal;
    g.call.scale = 1.0f / sqrtf((float)head_dim);
    g.call.type = type;
    g.call.Q = Q, g.call.K = K, g.call.V = V, g.call.O = O, g.call.LSE = LSE, g.call.dO = dO;
    forward(&g, O, LSE);

    struct attention_backward call = g.call;
    call.Q = on_device(Q, queries * bytes);
    call.K = on_device(K, keys * bytes);
    call.V = on_device(V, keys * bytes);
    call.O = on_device(O, queries * bytes);
    call.LSE = (float *)on_device(LSE, queries * sizeof(float));
    call.dO = on_device(dO, queries * bytes);
    call.dQ = on_device(NULL, queries * bytes);
    call.dK = on_device(NULL, keys * bytes);
    call.dV = on_device(NULL, keys * bytes);
    const size_t workspace_bytes = WORKSPACE;
    call.workspace = workspace_bytes > 0 ? on_device(NULL, workspace_bytes) : NULL;

    must(KERNEL(&call), "the launch");
    must(cudaDeviceSynchronize(), "the kernel");
    const void *dQ = on_host(call.dQ, queries * bytes);
    const void *dK = on_host(call.dK, keys * bytes), *dV = on_host(call.dV, keys * bytes);

    const double bound = reference::bound_of(&g.call);
    double *value = doubles(2 * d), *scale = doubles(2 * d);
    for (size_t row = 0; row < queries; row++) {
        reference::row_of_dQ(&g, row, value, scale);
        if (wrong("dQ", type, dQ, row * d, d, value, scale, bound))
            return false;
    }
    for (size_t row = 0; row < keys; row++) {
        reference::rows_of_dK(&g, &row, 1, value, scale, value + d, scale + d);
        if (wrong("dK", type, dK, row * d, d, value, scale, bound) ||
            wrong("dV", type, dV, row * d, d, value + d, scale + d, bound))
            return false;
    }
    printf("PASS: NAME, %d x %d heads, %d queries, %d keys, head_dim %d%s\n", batch, heads, seq_q,
           seq_kv, head_dim, causal ? ", causal" : "");
    return true;
}
