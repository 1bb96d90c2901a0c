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

/*
 * Describes K and V of a call, whose elements have two bytes: [heads, keys, head_dim] each, in
 * boxes of so many keys. A map cannot be empty: without any key, Q's first row stands in for them,
 * as a single head of one key. What lies past that head is read as zeros.
 */
static inline cudaError_t key_maps_of(CUtensorMap *K, CUtensorMap *V, const struct attention *call,
                                      size_t heads, size_t keys, unsigned int box_keys)
{
    const bool empty = heads == 0 || keys == 0;
    const size_t cols = (size_t)call->head_dim;
    if (empty)
        heads = keys = 1;
    const cudaError_t status =
        tensor_map_of_halves(K, empty ? call->Q : call->K, heads, keys, cols, box_keys);
    return status == cudaSuccess
               ? tensor_map_of_halves(V, empty ? call->Q : call->V, heads, keys, cols, box_keys)
               : status;
}

/* The inputs of such a call. */
struct attention_maps {
    CUtensorMap Q, K, V;
};

/* Describes them; boxes have rows_Q, rows_K and rows_K rows. */
static inline cudaError_t attention_maps_of(struct attention_maps *maps,
                                            const struct attention *call, unsigned int rows_Q,
                                            unsigned int rows_K)
{
    const size_t heads = (size_t)call->batch * (size_t)call->heads;
    const size_t kv_heads = (size_t)call->batch * (size_t)call->kv_heads;
    const cudaError_t status = tensor_map_of_halves(&maps->Q, call->Q, heads, (size_t)call->seq_q,
                                                    (size_t)call->head_dim, rows_Q);
    return status == cudaSuccess
               ? key_maps_of(&maps->K, &maps->V, call, kv_heads, (size_t)call->seq_kv, rows_K)
               : status;
}

#endif
