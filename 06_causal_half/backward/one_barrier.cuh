/*
 * What backward_one_barrier (30_backward_one_barrier.cu) brings and backward_in_order keeps: what a
 * consumer does with a tile of queries until its dQ is there, what is left to do once that is
 * added, and how dK and dV are stored. When dQ is added is each rung's own; it defines
 * shared_tiles, with the places that are named here and in warpgroup_keys.cuh.
 */
#ifndef ONE_BARRIER_CUH
#define ONE_BARRIER_CUH

#include "warpgroup_keys.cuh"

/* dQ = dS·K, by one warpgroup: dS are all keys and its 64 queries, K all keys and its 64 features.
 * Starts one group. */
template <typename T>
static __device__ __forceinline__ void start_dQ(float (&dQ)[OWN_Q], const T *dS, const T *K)
{
    const uint64_t a = wgmma_descriptor(shared_address(dS), 0, 8 * ROW_BYTES);
    const uint64_t b = wgmma_descriptor(shared_address(K), 0, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < Bc; k += 16)
        wgmma_shared_transposed<2 * OWN_Q, T>(dQ, wgmma_descriptor_at(a, k * ROW_BYTES),
                                              wgmma_descriptor_at(b, k * ROW_BYTES), k > 0);
    wgmma_commit();
}

/* Starts all products of a tile of queries, and waits for dV's and dQ's. dPᵀ is made in dP, and dS
 * stored in this place of the two. */
template <class Config, bool CAUSAL, bool MASKED>
static __device__ __forceinline__ void
make_dQ(struct consumer<Config> &c, float (&dQ)[OWN_Q], float (&dP)[Config::Br / 2],
        uint32_t (&packed)[Config::Br / 4], int place, int row0, int seq_q, int seq_kv)
{
    typedef typename Config::T T;
    const int HEAD_DIM = Config::HEAD_DIM, Br = Config::Br;
    const T *Q = c.shared->Q[c.at.stage], *dO = c.shared->dO[c.at.stage];
    T *dS = c.shared->dS[place];
    uint32_t P[Br / 4];
    make_factors<Config, CAUSAL, MASKED>(c, dP, P, packed, row0, seq_q, seq_kv);
    start_columns<T, Br, Br, HEAD_DIM>(c.dV, P, dO, true);
    store_dS<Config>(dS, packed, threadIdx.x / WARP * 16);
    async_proxy_fence();
    named_barrier_sync(1, WARPGROUP * CONSUMERS); /* dS is complete, and visible to wgmma */
    start_dQ(dQ, dS + c.warp_query / 64 * 64 * Bc, c.K_columns);
    start_columns<T, Br, Br, HEAD_DIM>(c.dK, packed, Q, true);

    wgmma_wait<1>(); /* dV has this tile, and dQ is there */
    wgmma_hold(c.dV);
    wgmma_hold(P);
    wgmma_hold(dQ);
}

/* Adds the thread's dQ to its floats of a part. */
static __device__ __forceinline__ void add_dQ(float *sums, const float (&dQ)[OWN_Q])
{
#pragma unroll
    for (int i = 0; i < OWN_Q; i += 4)
        red_add_4(&sums[i * WARP], make_float4(dQ[i], dQ[i + 1], dQ[i + 2], dQ[i + 3]));
}

/* Waits for dK's product, the last one, and gives the tile back. */
template <class Config>
static __device__ __forceinline__ void finish_tile(struct consumer<Config> &c,
                                                   uint32_t (&packed)[Config::Br / 4])
{
    wgmma_wait<0>(); /* dK has this tile, too */
    wgmma_hold(c.dK);
    wgmma_hold(packed);
    mbarrier_arrive(&c.shared->empty[c.at.stage]);
    advance<STAGES>(c.at);
}

/* Stores the warp's 16 rows of dK or dV, of a head whose keys begin at `matrix`, through its rows
 * of a tile. */
template <class Config>
static __device__ __forceinline__ void
store_through(typename Config::T *tile, typename Config::T *matrix,
              const float (&x)[Config::HEAD_DIM / 2], int key0, int seq_kv, int head_dim)
{
    const int LANES = Config::HEAD_DIM / 8; /* that store a row together */
    const int lane = threadIdx.x % WARP, warp_key = threadIdx.x / WARP * 16;
    uint32_t packed[Config::HEAD_DIM / 4];
    pack_rows<typename Config::T>(packed, x);
#pragma unroll
    for (int d = 0; d < Config::HEAD_DIM; d += 16)
        stmatrix_x4(shared_address(&tile[swizzled<Bc>(warp_key + lane % 16, d + lane / 16 * 8)]),
                    &packed[d / 4]);
    __syncwarp(); /* the rows are there before a lane reads what others stored */
#pragma unroll
    for (int i = lane; i < 16 * LANES; i += WARP) {
        const int row = warp_key + i / LANES, col = i % LANES * 8;
        if (key0 + row < seq_kv && col < head_dim)
            *(uint4 *)&matrix[(size_t)(key0 + row) * head_dim + col] =
                *(const uint4 *)&tile[swizzled<Bc>(row, col)];
    }
    __syncwarp(); /* all have read before the next rows come */
}

/* Stores dV and dK of the block's keys through V's place, which nobody reads any more. */
template <class Config>
static __device__ __forceinline__ void
store_keys_through(struct consumer<Config> &c, struct shared_tiles<Config> *shared,
                   const struct attention_backward &call, const struct key_tile own)
{
    typedef typename Config::T T;
    const int seq_kv = call.seq_kv;
    const size_t keys = (size_t)own.kv_head * seq_kv * call.head_dim;
    store_through<Config>(shared->V, (T *)call.dV + keys, c.dV, own.key0, seq_kv, call.head_dim);
#pragma unroll
    for (int i = 0; i < Config::HEAD_DIM / 2; i++)
        c.dK[i] *= call.scale;
    store_through<Config>(shared->V, (T *)call.dK + keys, c.dK, own.key0, seq_kv, call.head_dim);
}

#endif
