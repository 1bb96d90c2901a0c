/*
 * The tensor maps of a call's inputs.
 */
#ifndef ATTENTION_MAPS_CUH
#define ATTENTION_MAPS_CUH

#include "harness/tensor_map.h"
#include "problems/attention.h"

/* The inputs of a call whose elements have two bytes. */
struct attention_maps {
    CUtensorMap Q, K, V;
};

/*
 * Describes them; boxes have rows_Q, rows_K and rows_K rows. A map cannot be empty: without any
 * key, Q's first row stands in for K and V, as a single head of one key. What lies past that head
 * is read as zeros.
 */
static inline cudaError_t attention_maps_of(struct attention_maps *maps,
                                            const struct attention *call, unsigned int rows_Q,
                                            unsigned int rows_K)
{
    const bool keys = call->seq_kv > 0;
    const size_t heads = (size_t)call->batch * (size_t)call->heads;
    const size_t kv_heads = keys ? (size_t)call->batch * (size_t)call->kv_heads : 1;
    const size_t seq_q = (size_t)call->seq_q, seq_kv = keys ? (size_t)call->seq_kv : 1;
    const size_t cols = (size_t)call->head_dim;
    const void *K = keys ? call->K : call->Q, *V = keys ? call->V : call->Q;

    cudaError_t status = tensor_map_of_halves(&maps->Q, call->Q, heads, seq_q, cols, rows_Q);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&maps->K, K, kv_heads, seq_kv, cols, rows_K);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&maps->V, V, kv_heads, seq_kv, cols, rows_K);
    return status;
}

#endif
