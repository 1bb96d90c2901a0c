/*
 * What backward_one_barrier (30_backward_one_barrier.cu) brings and backward_in_order,
 * backward_persistent and backward_fused keep: what a consumer does with a tile of queries, and how
 * it stores its sums. (The last two have a loop of their own in place of consume().) When a part of
 * dQ is added is each rung's own: it defines put_dQ(), and shared_tiles with the places that are
 * named here and in warpgroup_keys.cuh.
 */
#ifndef ONE_BARRIER_CUH
#define ONE_BARRIER_CUH

#include "warpgroup_keys.cuh"

/* dQ = dS·K, by one warpgroup: dS are all keys and its 64 queries, K all keys and its 64 features.
 * Or, TURNED, dQᵀ = Kᵀ·dSᵀ: all keys, its 64 features and all queries. Starts one group. */
template <class Config>
static __device__ __forceinline__ void
start_dQ(float (&dQ)[Config::OWN], const typename Config::T *dS, const typename Config::T *K)
{
    const int panel = Bc * ROW_BYTES;
    const uint64_t of_dS = wgmma_descriptor(shared_address(dS), panel, 8 * ROW_BYTES);
    const uint64_t of_K = wgmma_descriptor(shared_address(K), panel, 8 * ROW_BYTES);
    const uint64_t a = Config::TURNED ? of_K : of_dS, b = Config::TURNED ? of_dS : of_K;
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < Bc; k += 16)
        wgmma_shared_transposed<2 * Config::OWN, typename Config::T>(
            dQ, wgmma_descriptor_at(a, k * ROW_BYTES), wgmma_descriptor_at(b, k * ROW_BYTES),
            k > 0);
    wgmma_commit();
}

/* What a rung does with the thread's dQ of a tile, whose floats of the workspace begin at `sums`,
 * while dK's product is under way. */
template <class Config>
static __device__ __forceinline__ void put_dQ(struct consumer<Config> &c, float *sums,
                                              const float (&dQ)[Config::OWN]);

/* Adds what a tile of queries gives to dK and dV, and puts its dQ where `part` is. Where dPᵀ and dQ
 * have as many floats, at HEAD_DIM 128, both are made in `kept`, from tile to tile the same
 * registers: so Sᵀ of the next tile, which has others, need not wait until dQ is on its way. At 80
 * queries no register is left for the lane's number, and it is read when it is needed. */
template <class Config, bool CAUSAL, bool MASKED>
static __device__ __forceinline__ void multiply_and_add(struct consumer<Config> &c,
                                                        float (&kept)[Config::Br / 2], float *part,
                                                        int row0, int seq_q, int seq_kv)
{
    typedef typename Config::T T;
    const int HEAD_DIM = Config::HEAD_DIM, Br = Config::Br, OWN = Config::OWN;
    const bool KEPT = Br / 2 == OWN;
    const T *Q = c.shared->Q[c.at.stage], *dO = c.shared->dO[c.at.stage];
    T *dS = c.shared->dS[c.at.stage];
    uint32_t P[Br / 4], packed[Br / 4];
    float own_dP[Br / 2], own_dQ[OWN], *sums = own_floats(part);
    float(&dP)[Br / 2] = KEPT ? kept : own_dP;
    float(&dQ)[OWN] = KEPT ? (float(&)[OWN])kept : own_dQ;
    make_factors<Config, CAUSAL, MASKED>(c, dP, P, packed, row0, seq_q, seq_kv);
    /* Measured: at HEAD_DIM 64 it pays to store dS, which both warpgroups wait for, before dV's
     * product is started; at 128 to store it while that is under way. */
    const bool STORED_FIRST = HEAD_DIM == 64;
    const int warp_key = threadIdx.x / WARP * 16;
    if (STORED_FIRST)
        store_dS<Config>(dS, packed, warp_key);
    start_columns<T, Br, Br, HEAD_DIM>(c.dV, P, dO, true);
    if (!STORED_FIRST)
        store_dS<Config>(dS, packed, warp_key);
    async_proxy_fence();
    named_barrier_sync(1, WARPGROUP * CONSUMERS); /* dS is complete, and visible to wgmma */
    start_dQ<Config>(dQ, dS + c.warp_query / 64 * 64 * Bc, c.K_columns);
    start_columns<T, Br, Br, HEAD_DIM>(c.dK, packed, Q, true);

    wgmma_wait<1>(); /* dV has this tile, and dQ is there */
    wgmma_hold(c.dV);
    wgmma_hold(P);
    wgmma_hold(dQ);
    put_dQ(c, Config::TURNED ? part + 4 * volatile_lane() : sums, dQ);
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
    /* The address of a row in the tile follows from its key: what depends on the thread alone would
     * be kept in registers from tile to tile. */
    const int lane = threadIdx.x % WARP, warp_key = key0 + threadIdx.x / WARP * 16;
    uint32_t packed[Config::HEAD_DIM / 4];
    pack_rows<typename Config::T>(packed, x);
    const int row = (warp_key + lane % 16) % Bc;
#pragma unroll
    for (int d = 0; d < Config::HEAD_DIM; d += 16)
        stmatrix_x4(shared_address(&tile[swizzled<Bc>(row, d + lane / 16 * 8)]), &packed[d / 4]);
    __syncwarp(); /* the rows are there before a lane reads what others stored */
#pragma unroll
    for (int i = lane; i < 16 * LANES; i += WARP) {
        const int key = warp_key + i / LANES, col = i % LANES * 8;
        if (key < seq_kv && col < head_dim)
            *(uint4 *)&matrix[(size_t)key * head_dim + col] =
                *(const uint4 *)&tile[swizzled<Bc>(key % Bc, col)];
    }
    __syncwarp(); /* all have read before the next rows come */
}

/* Of dQᵀ a part is 16 features and a tile's queries. Those of a tile lie one behind the other, and
 * so do tiles. */
template <class Config>
static __device__ __forceinline__ float *turned_part_of_dQ(float *dQ, int head, int row0,
                                                           int feature, int seq_q)
{
    const size_t row = (size_t)head * padded_queries<Config>(seq_q) + row0;
    return dQ + row * Config::HEAD_DIM + feature * Config::Br;
}

/* Where in the workspace lies what the warp makes of dQ of a tile of a head's queries. */
template <class Config>
static __device__ __forceinline__ float *part_of_warp(const struct consumer<Config> &c,
                                                      const struct backward_problem &problem,
                                                      int warpgroup, int head, int row0)
{
    const int feature = first_feature<Config>(warpgroup), seq_q = problem.call.seq_q;
    return Config::TURNED
               ? turned_part_of_dQ<Config>(problem.dQ, head, row0,
                                           feature + threadIdx.x / WARP % 4 * PART_ROWS, seq_q)
               : part_of_dQ<Config>(problem.dQ, head, row0 + c.warp_query, feature, seq_q);
}

/* A tile of queries of a head. */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ void
multiply_queries(struct consumer<Config> &c, float (&kept)[Config::Br / 2],
                 const struct backward_problem &problem, int warpgroup, int head, int row0)
{
    const int seq_q = problem.call.seq_q, seq_kv = problem.call.seq_kv;
    float *part = part_of_warp(c, problem, warpgroup, head, row0);
    if (needs_mask<CAUSAL>(c.key0, row0, seq_q, seq_kv))
        multiply_and_add<Config, CAUSAL, true>(c, kept, part, row0, seq_q, seq_kv);
    else
        multiply_and_add<Config, CAUSAL, false>(c, kept, part, row0, seq_q, seq_kv);
}

/* Stores dV and dK of the block's keys through the warp's rows of a tile, which nobody else reads
 * any more. */
template <class Config>
static __device__ __forceinline__ void
store_sums(struct consumer<Config> &c, typename Config::T *tile,
           const struct attention_backward &call, int kv_head)
{
    typedef typename Config::T T;
    const size_t keys = (size_t)kv_head * call.seq_kv * call.head_dim;
    store_through<Config>(tile, (T *)call.dV + keys, c.dV, c.key0, call.seq_kv, call.head_dim);
#pragma unroll
    for (int i = 0; i < Config::HEAD_DIM / 2; i++)
        c.dK[i] *= call.scale;
    store_through<Config>(tile, (T *)call.dK + keys, c.dK, c.key0, call.seq_kv, call.head_dim);
}

template <class Config>
static __device__ __forceinline__ void begin_kept(float (&kept)[Config::Br / 2])
{
#pragma unroll
    for (int i = 0; i < Config::Br / 2; i++)
        kept[i] = 0.0f;
}

template <class Config, bool CAUSAL>
static __device__ __forceinline__ void consume(struct shared_tiles<Config> *shared,
                                               const struct backward_problem &problem,
                                               const struct key_tile own, int warpgroup)
{
    const struct attention_backward &call = problem.call;
    const int seq_q = call.seq_q, group = call.heads / call.kv_heads;
    const int kv_head = own.kv_head;
    const int first_row = backward_first_query(CAUSAL, own.key0, seq_q, call.seq_kv, Config::Br);
    struct consumer<Config> c;
    begin_keys(c, shared, problem.scale_log2, warpgroup, own.key0);

    float kept[Config::Br / 2];
    begin_kept<Config>(kept);
    mbarrier_wait(&shared->keys_full, 0);
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int row0 = first_row; row0 < seq_q; row0 += Config::Br)
            multiply_queries<Config, CAUSAL>(c, kept, problem, warpgroup, head, row0);
    store_sums(c, shared->V, call, kv_head);
}

#endif
