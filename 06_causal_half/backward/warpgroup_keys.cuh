/*
 * What backward_wgmma (25_backward_wgmma.cu) brings and the rungs after it keep: the producer, and
 * what a consumer does with a tile. How dQ gets to the workspace is each rung's own; it defines
 * shared_tiles, with the places that are named here.
 */
#ifndef WARPGROUP_KEYS_CUH
#define WARPGROUP_KEYS_CUH

#include "06_causal_half/hopper/tma_tiles.cuh"
#include "gradient_tiles.cuh"

static_assert(PANEL == PANEL_COLS, "a panel is filled by one box");
static const int Bc = BACKWARD_BLOCK_KEYS;
static const int WARPGROUP = 128, CONSUMERS = 2, THREADS = WARPGROUP * (CONSUMERS + 1);
static const int WARPGROUP_KEYS = Bc / CONSUMERS;

/* A warpgroup multiplies 64 rows of its left factor. Where that many do not divide a tile's queries
 * dQ is made as dQᵀ = Kᵀ·dSᵀ, whose rows are 64 features. */
template <typename ELEMENT, int D, int QUERIES = BACKWARD_WGMMA_QUERIES(D)>
struct config {
    typedef ELEMENT T;
    static const int HEAD_DIM = D, Br = QUERIES;
    static const bool TURNED = Br % 64 != 0;
    static const int OWN = TURNED ? Br / 2 : OWN_Q;                 /* floats of dQ of a thread */
    static const int dS_COLUMNS = (Br + PANEL - 1) / PANEL * PANEL; /* whole panels */
};

template <class Config>
struct shared_tiles;

/* All that the kernel is told. Q and dO come in boxes of Br rows, K and V of Bc. */
struct backward_problem {
    CUtensorMap Q, K, V, dO;
    struct attention_backward call;
    struct tile_order order;
    const float *D;
    float *dQ;
    int places; /* heads whose dQ has one; of more, those that are so many apart share one */
    float scale_log2;
};

/* ---- the producer ---- */

/* LSE and D of a tile's queries, by a warp. A query that sees no key, or is none, has no weight:
 * 2^(S - inf) = 0. */
template <class Config>
static __device__ __forceinline__ void load_numbers(float *LSE, float *D, const float *LSE_from,
                                                    const float *D_from, int queries)
{
    const int EACH = (Config::Br + WARP - 1) / WARP, inside = min(queries, Config::Br);
    const int lane = threadIdx.x % WARP;
    float own_LSE[EACH], own_D[EACH]; /* all are asked for before the first is waited for */
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int query = i * WARP + lane;
        own_LSE[i] = query < inside ? LSE_from[query] : -CUDART_INF_F;
        own_D[i] = query < inside ? D_from[query] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int query = i * WARP + lane;
        if (query < Config::Br) {
            LSE[query] = own_LSE[i] == -CUDART_INF_F ? CUDART_INF_F : own_LSE[i] * LOG2_E;
            D[query] = own_D[i];
        }
    }
}

/* By one thread, which arrives. */
template <class Config>
static __device__ __forceinline__ void
load_queries(typename Config::T *tile, const CUtensorMap *map, int row0, int head, uint64_t *full)
{
    mbarrier_arrive_expect(full, Config::Br * Config::HEAD_DIM * sizeof *tile);
    load_panels<Config::Br, Config::HEAD_DIM>(tile, map, row0, head, full);
}

/* By one thread, which arrives. */
template <class Config>
static __device__ __forceinline__ void load_keys(struct shared_tiles<Config> *shared,
                                                 const struct backward_problem &problem,
                                                 const struct key_tile own)
{
    uint64_t *full = &shared->keys_full;
    mbarrier_arrive_expect(full, sizeof shared->K + sizeof shared->V);
    load_panels<Bc, Config::HEAD_DIM>(shared->K, &problem.K, own.key0, own.kv_head, full);
    load_panels<Bc, Config::HEAD_DIM>(shared->V, &problem.V, own.key0, own.kv_head, full);
}

/* Brings a tile of queries, by a warp: one lane requests the tiles, which take longest, and all
 * bring numbers, and arrive. */
template <class Config>
static __device__ __forceinline__ void produce_queries(struct shared_tiles<Config> *shared,
                                                       const struct backward_problem &problem,
                                                       struct ring_position &at, int head, int row0)
{
    const struct attention_backward &call = problem.call;
    const size_t query = (size_t)head * call.seq_q + row0;
    /* on a new barrier the phase before the first counts as over: new places are empty */
    mbarrier_wait(&shared->empty[at.stage], at.phase ^ 1);
    if (threadIdx.x % WARP == 0) {
        load_queries<Config>(shared->Q[at.stage], &problem.Q, row0, head,
                             &shared->Q_full[at.stage]);
        load_queries<Config>(shared->dO[at.stage], &problem.dO, row0, head,
                             &shared->dO_full[at.stage]);
    }
    load_numbers<Config>(shared->LSE[at.stage], shared->D[at.stage], call.LSE + query,
                         problem.D + query, call.seq_q - row0);
    mbarrier_arrive(&shared->Q_full[at.stage]);
    advance<STAGES>(at);
}

/* Brings all that a block needs, by a warp. */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ void produce(struct shared_tiles<Config> *shared,
                                               const struct backward_problem &problem,
                                               const struct key_tile own)
{
    const struct attention_backward &call = problem.call;
    const int seq_q = call.seq_q, group = call.heads / call.kv_heads;
    const int kv_head = own.kv_head;
    if (threadIdx.x % WARP == 0)
        load_keys(shared, problem, own);
    const int first_row = backward_first_query(CAUSAL, own.key0, seq_q, call.seq_kv, Config::Br);
    struct ring_position at = {0, 0};
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int row0 = first_row; row0 < seq_q; row0 += Config::Br)
            produce_queries(shared, problem, at, head, row0);
}

/* By one thread. */
template <class Config>
static __device__ __forceinline__ void initialise_barriers(struct shared_tiles<Config> *shared)
{
    mbarrier_init(&shared->keys_full, 1);
    for (int stage = 0; stage < STAGES; stage++) {
        mbarrier_init(&shared->Q_full[stage], WARP + 1); /* numbers, and Q */
        mbarrier_init(&shared->dO_full[stage], 1);
        mbarrier_init(&shared->empty[stage], WARPGROUP * CONSUMERS);
    }
    mbarrier_init_fence();
}

/* ---- products, by one warpgroup; each starts one group, to be waited for ---- */

/* x = A·Bᵀ: A are the warpgroup's 64 rows of K or V, B a tile of queries, all along features. */
template <class Config>
static __device__ __forceinline__ void
start_rows(float (&x)[Config::Br / 2], const typename Config::T *A, const typename Config::T *B)
{
    const uint64_t a = wgmma_descriptor(shared_address(A), 0, 8 * ROW_BYTES);
    const uint64_t b = wgmma_descriptor(shared_address(B), 0, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < Config::HEAD_DIM; d += 16) {
        const int panel = d / PANEL_COLS, bytes = d % PANEL_COLS * 2;
        wgmma_shared<Config::Br, typename Config::T>(
            x, wgmma_descriptor_at(a, panel * Bc * ROW_BYTES + bytes),
            wgmma_descriptor_at(b, panel * Config::Br * ROW_BYTES + bytes), d > 0);
    }
    wgmma_commit();
}

/* x += A·B, or x = A·B: A is in registers, SUMMED columns; B has as many rows of ROWS, and N
 * features along them. */
template <typename T, int SUMMED, int ROWS, int N>
static __device__ __forceinline__ void
start_columns(float (&x)[N / 2], const uint32_t (&A)[SUMMED / 4], const T *B, bool accumulate)
{
    const uint64_t b = wgmma_descriptor(shared_address(B), ROWS * ROW_BYTES, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < SUMMED; n += 16)
        wgmma_registers<N, T>(x, &A[n / 4], wgmma_descriptor_at(b, n * ROW_BYTES),
                              accumulate || n > 0);
    wgmma_commit();
}

/* ---- dS, and dQ ---- */

/* dS of the warp's 16 keys to shared memory. */
template <class Config>
static __device__ __forceinline__ void
store_dS(typename Config::T *dS, const uint32_t (&packed)[Config::Br / 4], int warp_key)
{
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int q = 0; q < Config::Br; q += 16)
        stmatrix_x4(shared_address(&dS[swizzled<Bc>(warp_key + lane % 16, q + lane / 16 * 8)]),
                    &packed[q / 4]);
}

/* The queries of a tile, and the features, at which a warpgroup's half of dQ begins. */
template <class Config>
static __device__ __forceinline__ int first_query(int warpgroup)
{
    return Config::HEAD_DIM == 64 ? 64 * warpgroup : 0;
}

template <class Config>
static __device__ __forceinline__ int first_feature(int warpgroup)
{
    return Config::HEAD_DIM == 64 ? 0 : 64 * warpgroup;
}

/* ---- the consumers ---- */

/* What a thread carries from tile to tile: where it is, and its part of its warp's rows of dK and
 * dV. */
template <class Config>
struct consumer {
    typedef typename Config::T T;
    struct shared_tiles<Config> *shared;
    struct ring_position at;
    int key0, warp_query;     /* the block's first key; the first query of the warp's dQ */
    const T *K_rows, *V_rows; /* the warpgroup's */
    const T *K_columns;       /* the features of K that its half of dQ is made with */
    float scale_log2;
    float dK[Config::HEAD_DIM / 2], dV[Config::HEAD_DIM / 2];
};

/* The sums of the keys from key0 on begin. */
template <class Config>
static __device__ __forceinline__ void begin_sums(struct consumer<Config> &c, int key0)
{
    c.key0 = key0;
#pragma unroll
    for (int i = 0; i < Config::HEAD_DIM / 2; i++)
        c.dK[i] = c.dV[i] = 0.0f;
}

template <class Config>
static __device__ __forceinline__ void begin_keys(struct consumer<Config> &c,
                                                  struct shared_tiles<Config> *shared,
                                                  float scale_log2, int warpgroup, int key0)
{
    c.shared = shared;
    c.at = {0, 0};
    c.warp_query = first_query<Config>(warpgroup) + threadIdx.x / WARP % 4 * 16;
    c.K_rows = shared->K + warpgroup * WARPGROUP_KEYS * PANEL_COLS;
    c.V_rows = shared->V + warpgroup * WARPGROUP_KEYS * PANEL_COLS;
    c.K_columns = shared->K + first_feature<Config>(warpgroup) * Bc;
    c.scale_log2 = scale_log2;
    begin_sums(c, key0);
}

/* Whether some query of a tile, which begins at row0, does not see all keys of a block. */
template <bool CAUSAL>
static __device__ __forceinline__ bool needs_mask(int key0, int row0, int seq_q, int seq_kv)
{
    return visible_keys<CAUSAL>(row0, seq_q, seq_kv) < key0 + Bc; /* the first sees fewest */
}

/* LSE of a tile's queries, of which a thread needs one pair of each eight, the same as seven other
 * lanes. At HEAD_DIM 64 each of these loads an eighth while S is made, and all get them by
 * shuffles: 128 queries' would fill 32 registers, and loads once S is there keep tensor cores
 * waiting. At 128, where a tile has fewer, loads are faster. */
template <class Config>
struct tile_LSE {
    static const bool SHUFFLED = Config::HEAD_DIM == 64;
    const float *all;
    float2 own[Config::Br / 64];
};

template <class Config>
static __device__ __forceinline__ void load_own(struct tile_LSE<Config> &LSE, const float *all)
{
    LSE.all = all;
    if (LSE.SHUFFLED)
        for (int i = 0; i < Config::Br / 64; i++)
            LSE.own[i] = *(const float2 *)&all[64 * i + threadIdx.x % WARP * 2];
}

/* That of the query in whose column element i of S lies. By a warp. */
template <class Config>
static __device__ __forceinline__ float LSE_of(const struct tile_LSE<Config> &LSE, int i)
{
    if (!LSE.SHUFFLED)
        return LSE.all[query_of(i)];
    const float2 own = LSE.own[i / 32];
    const int lane = i / 4 % 8 * ROW_LANES + threadIdx.x % ROW_LANES;
    return __shfl_sync(FULL_MASK, i % 2 ? own.y : own.x, lane);
}

/* Pᵀ and dSᵀ of a tile of queries, rounded, as left factors. dPᵀ is made in dS, which is the
 * caller's to say where it lies. */
template <class Config, bool CAUSAL, bool MASKED>
static __device__ __forceinline__ void
make_factors(struct consumer<Config> &c, float (&dS)[Config::Br / 2], uint32_t (&P)[Config::Br / 4],
             uint32_t (&packed)[Config::Br / 4], int row0, int seq_q, int seq_kv)
{
    const int Br = Config::Br, stage = c.at.stage;
    float S[Br / 2];
    mbarrier_wait(&c.shared->Q_full[stage], c.at.phase);
    start_rows<Config>(S, c.K_rows, c.shared->Q[stage]);
    mbarrier_wait(&c.shared->dO_full[stage], c.at.phase);
    start_rows<Config>(dS, c.V_rows, c.shared->dO[stage]);

    struct tile_LSE<Config> LSE;
    load_own(LSE, c.shared->LSE[stage]);
    wgmma_wait<1>(); /* Sᵀ is there */
    wgmma_hold(S);
    const int first_key = c.key0 + threadIdx.x / WARP * 16 + key_of(0);
#pragma unroll
    for (int i = 0; i < Br / 2; i++) {
        S[i] = exp2_approximate(S[i] * c.scale_log2 - LSE_of(LSE, i));
        const int key = first_key + 8 * (i / 2 % 2);
        if (MASKED && key >= visible_keys<CAUSAL>(row0 + query_of(i), seq_q, seq_kv))
            S[i] = 0.0f;
    }
    wgmma_wait<0>(); /* and dPᵀ */
    wgmma_hold(dS);
#pragma unroll
    for (int i = 0; i < Br / 2; i++)
        dS[i] = S[i] * (dS[i] - c.shared->D[stage][query_of(i)]);
    pack_rows<typename Config::T>(P, S);
    pack_rows<typename Config::T>(packed, dS);
}

template <class Config, bool CAUSAL, bool MASKED>
static __device__ __forceinline__ void
multiply_tile_as(struct consumer<Config> &c, float (&dQ)[OWN_Q], int row0, int seq_q, int seq_kv)
{
    typedef typename Config::T T;
    const int HEAD_DIM = Config::HEAD_DIM, Br = Config::Br;
    const T *Q = c.shared->Q[c.at.stage], *dO = c.shared->dO[c.at.stage];
    float dP[Br / 2];
    uint32_t P[Br / 4], packed[Br / 4];
    make_factors<Config, CAUSAL, MASKED>(c, dP, P, packed, row0, seq_q, seq_kv);
    start_columns<T, Br, Br, HEAD_DIM>(c.dV, P, dO, true);
    named_barrier_sync(1, WARPGROUP * CONSUMERS); /* nobody reads the last tile's dS */
    store_dS<Config>(c.shared->dS, packed, threadIdx.x / WARP * 16);
    start_columns<T, Br, Br, HEAD_DIM>(c.dK, packed, Q, true);
    named_barrier_sync(2, WARPGROUP * CONSUMERS); /* dS is complete */

    wgmma_wait<1>(); /* dV has this tile, and A may have the registers of P */
    wgmma_hold(c.dV);
    wgmma_hold(P);
    uint32_t A[Bc / 4];
    load_dS<Bc>(A, c.shared->dS, c.warp_query);
    start_columns<T, Bc, Bc, 2 * OWN_Q>(dQ, A, c.K_columns, false);
    wgmma_wait<0>();
    wgmma_hold(c.dK);
    wgmma_hold(packed);
    wgmma_hold(dQ);
    wgmma_hold(A);
    mbarrier_arrive(&c.shared->empty[c.at.stage]);
    advance<STAGES>(c.at);
}

/* Adds what a tile of queries gives to dK and dV, and makes the thread's part of its dQ. Few tiles
 * need a mask, and the others have code without one. */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ void multiply_tile(struct consumer<Config> &c, float (&dQ)[OWN_Q],
                                                     int row0, int seq_q, int seq_kv)
{
    if (needs_mask<CAUSAL>(c.key0, row0, seq_q, seq_kv))
        multiply_tile_as<Config, CAUSAL, true>(c, dQ, row0, seq_q, seq_kv);
    else
        multiply_tile_as<Config, CAUSAL, false>(c, dQ, row0, seq_q, seq_kv);
}

/* Adds the thread's dQ to its floats of a part. */
template <int COUNT>
static __device__ __forceinline__ void add_dQ(float *sums, const float (&dQ)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i += 4)
        red_add_4(&sums[i * WARP], make_float4(dQ[i], dQ[i + 1], dQ[i + 2], dQ[i + 3]));
}

/* ---- the launch ---- */

/* Says all that a rung's kernel is told. So many heads have a place for dQ. */
template <class Config>
static cudaError_t describe(struct backward_problem *problem, const struct attention_backward *call,
                            const struct tile_order order, const float *D, int places)
{
    const size_t heads = (size_t)call->batch * (size_t)call->heads;
    const size_t kv_heads = (size_t)call->batch * (size_t)call->kv_heads;
    const size_t seq_q = (size_t)call->seq_q, seq_kv = (size_t)call->seq_kv;
    const size_t cols = (size_t)call->head_dim;
    problem->call = *call;
    problem->order = order;
    problem->D = D;
    problem->dQ = (float *)call->workspace;
    problem->places = places;
    problem->scale_log2 = call->scale * LOG2_E;
    cudaError_t status = tensor_map_of_halves(&problem->Q, call->Q, heads, seq_q, cols, Config::Br);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&problem->dO, call->dO, heads, seq_q, cols, Config::Br);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&problem->K, call->K, kv_heads, seq_kv, cols, Bc);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&problem->V, call->V, kv_heads, seq_kv, cols, Bc);
    return status;
}

/* Launches a rung's kernel, with so many blocks: between begin_gradients() and finish_gradients(),
 * or what a rung has in their place. */
template <class Config, class Problem>
static cudaError_t launch_tiles(void (*kernel)(Problem), const Problem &problem, int blocks,
                                cudaStream_t stream)
{
    const int bytes = sizeof(struct shared_tiles<Config>);
    const cudaError_t status = cudaFuncSetAttribute(
        (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess)
        return status;
    kernel<<<blocks, THREADS, bytes, stream>>>(problem);
    return cudaGetLastError();
}

/* Launches D's kernel, the rung's and dQ's, which finish() does; dQ begins with zeros where the
 * rung only adds. The rung has so many blocks; 0 means one for each tile of keys. */
template <class Config>
static cudaError_t launch_gradients(
    const struct attention_backward *call, const struct tile_order order,
    void (*kernel)(struct backward_problem), bool zeros = true, int blocks = 0,
    cudaError_t (*finish)(const struct attention_backward *) = finish_gradients<Config>)
{
    struct backward_problem problem;
    cudaError_t status =
        describe<Config>(&problem, call, order, D_of<Config>(call), call->batch * call->heads);
    if (status != cudaSuccess)
        return status;
    begin_gradients<Config>(call, zeros);
    status =
        launch_tiles<Config>(kernel, problem, blocks != 0 ? blocks : order.tiles, call->stream);
    return status == cudaSuccess ? finish(call) : status;
}

#endif
