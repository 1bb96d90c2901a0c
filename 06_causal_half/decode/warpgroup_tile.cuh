/* What a warpgroup does with 64 rows of one kv head's list and a tile of keys, by wgmma; for the
 * rungs from decode_wgmma on. */
#ifndef WARPGROUP_TILE_CUH
#define WARPGROUP_TILE_CUH

#include "row_tile.cuh"

static const int ROWS = 64;

/* Puts the warp's rows of Q where wgmma reads them. ROWS rows are a panel, as Bc rows of keys. */
template <typename T, int HEAD_DIM>
static __device__ __forceinline__ void keep_queries(T *Q, const struct warp_rows<HEAD_DIM> &own)
{
    static_assert(ROWS == Bc, "swizzled() knows panels of Bc rows");
    const int lane = threadIdx.x % WARP, first_row = threadIdx.x / WARP * 16;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 8)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int place = swizzled(first_row + lane / ROW_LANES + 8 * r, d);
            *(uint32_t *)&Q[place + lane % ROW_LANES * 2] = own.q[d / 16][d % 16 / 8 * 2 + r];
        }
}

/* Adds a tile of keys, of which the first is first_key, to all rows. */
template <typename T, int HEAD_DIM>
static __device__ __forceinline__ void attend_together(struct warp_rows<HEAD_DIM> &own, const T *Q,
                                                       const struct key_tile<T, HEAD_DIM> *tile,
                                                       int first_key)
{
    float S[Bc / 2];
    const uint64_t q = wgmma_descriptor(shared_address(Q), 0, 8 * PANEL_ROW_BYTES);
    const uint64_t k = wgmma_descriptor(shared_address(tile->K), 0, 8 * PANEL_ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
        const int bytes = d / PANEL * Bc * PANEL_ROW_BYTES + d % PANEL * 2;
        wgmma_shared<Bc, T>(S, wgmma_descriptor_at(q, bytes), wgmma_descriptor_at(k, bytes), d > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(S);

    if (first_key + Bc > own.seen_by_all)
        mask_scores(S, first_key, own.visible);
    float rescale[2];
    online_softmax(S, own.m, own.l, rescale, own.scale_log2);
    scale_rows(own.acc, rescale);
    uint32_t P[Bc / 4];
    pack_rows<T>(P, S);

    const uint64_t v =
        wgmma_descriptor(shared_address(tile->V), Bc * PANEL_ROW_BYTES, 8 * PANEL_ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < Bc; n += 16)
        wgmma_registers<HEAD_DIM, T>(own.acc, &P[n / 4],
                                     wgmma_descriptor_at(v, n * PANEL_ROW_BYTES), 1);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(own.acc);
    wgmma_hold(P);
}

#endif
