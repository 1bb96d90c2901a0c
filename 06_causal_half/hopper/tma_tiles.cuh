/*
 * Tiles by the copy engine: panels of 64 columns, as it delivers them, rows of 128 bytes, swizzled;
 * the places that they come to; and the tensor maps of a call's inputs.
 */
#ifndef TMA_TILES_CUH
#define TMA_TILES_CUH

#include "harness/tensor_map.h"
#include "problems/attention.h"
#include <ptx.cuh>

static const int PANEL_COLS = TENSOR_MAP_BOX_COLS;
static const int ROW_BYTES = PANEL_COLS * 2;

/* Requests a tile of ROWS rows of a head, by one thread; its bytes are counted on the mbarrier. */
template <int ROWS, int HEAD_DIM, typename T>
static __device__ __forceinline__ void load_panels(T *tile, const CUtensorMap *map, int row0,
                                                   int head, uint64_t *full)
{
#pragma unroll
    for (int col = 0; col < HEAD_DIM; col += PANEL_COLS)
        tma_load(shared_address(tile + col * ROWS), map, col, row0, head, full);
}

/* ---- places in shared memory, used in turn ---- */

/* The place whose turn it is, and the parity of its phase, which flips when place 0 comes again. */
struct ring_position {
    int stage, phase;
};

template <int STAGES>
static __device__ __forceinline__ void advance(struct ring_position &at)
{
    if (++at.stage == STAGES) {
        at.stage = 0;
        at.phase ^= 1;
    }
}

/* ---- tensor maps ---- */

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
