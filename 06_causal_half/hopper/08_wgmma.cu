// needs: sm_90a
/*
 * Idea: four warps multiply as one, asynchronously, straight from shared memory.
 *
 *     for each block of Bc keys, last to first:
 *         S = Q·Kᵀ                        m_new = max(m, rowmax S)               c = scale · log2 e
 *         P = 2^(c · S - c · m_new)            l     = l · 2^(c · m - c · m_new) + rowsum P
 *                                              O     = O · 2^(c · m - c · m_new) + P·V
 *     at the end:  O = O / l                   LSE   = (c · m + log2 l) · ln 2
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], elements of type
 * T; LSE [batch, heads, seq_q], float; row-major. HEAD_DIM is head_dim, a multiple of 8, rounded up
 * to 64 or 128, the rest zeros.
 *
 * A block owns Br = 128 queries of one head, each of its two warpgroups 64. wgmma reads K and V,
 * and Q, where TMA put them: ldmatrix and its registers are gone, and so are its addresses. P stays
 * in registers, as the left factor of the second product. K and V have STAGES places each.
 *
 * Everything still happens in turn: load (ahead), product, softmax, product, barrier. While a
 * warpgroup does its softmax its tensor cores have only the other warpgroup's products to do.
 *
 * Cost: global traffic as half's with this Br. Shared: wgmma reads K and V once per warpgroup and
 * block, 4 · Bc · HEAD_DIM bytes for 128 · Bc · HEAD_DIM multiply-adds, a quarter of mma's.
 *
 * Source: PTX ISA, cp.async.bulk.tensor, mbarrier, wgmma; Shah et al., FlashAttention-3
 * (arXiv:2407.08608).
 */
#include "06_causal_half/06_step.h"
#include "hopper_tile.cuh"

/* The scores become P, as soon as all products have ended. */
template <class Config>
static __device__ __forceinline__ void finish_scores(struct consumer<Config> &c, int block,
                                                     bool masked, float (&rescale)[2])
{
    wgmma_wait<0>();
    wgmma_hold(c.S);
    advance<Config::STAGES>(c.K_at);
    if (masked)
        mask_scores(c.S, block * Bc, c.visible);
    online_softmax(c.S, c.m, c.l, rescale, c.scale_log2);
}

/* The output is complete up to the block whose P it was started with. */
template <class Config>
static __device__ __forceinline__ void finish_output(struct consumer<Config> &c)
{
    wgmma_wait<0>();
    wgmma_hold(c.O);
    wgmma_hold(c.P);
    advance<Config::STAGES>(c.V_at);
}

template <typename ELEMENT, int D, int CONSUMERS>
struct config {
    typedef ELEMENT T;
    static const int HEAD_DIM = D;
    static const int WARPGROUPS = CONSUMERS;
    static const int Br = WARPGROUPS * WARPGROUP_ROWS;
    static const int THREADS = 128 * WARPGROUPS;
    static const int STAGES = HEAD_DIM == 64 ? 3 : 2;
};

template <class Config>
struct __align__(1024) shared_tiles
{
    typename Config::T Q[Config::Br * Config::HEAD_DIM];
    typename Config::T K[Config::STAGES][Bc * Config::HEAD_DIM];
    typename Config::T V[Config::STAGES][Bc * Config::HEAD_DIM];
    uint64_t Q_full, K_full[Config::STAGES], V_full[Config::STAGES];
};

/* By one thread. */
template <class Config>
static __device__ __forceinline__ void initialise_barriers(struct shared_tiles<Config> *shared)
{
    mbarrier_init(&shared->Q_full, 1);
    for (int stage = 0; stage < Config::STAGES; stage++) {
        mbarrier_init(&shared->K_full[stage], 1);
        mbarrier_init(&shared->V_full[stage], 1);
    }
    mbarrier_init_fence();
}

/* Requests one block of keys and of values for a stage, by one thread. */
template <class Config>
static __device__ __forceinline__ void
load_stage(struct shared_tiles<Config> *shared, const struct hopper_problem &problem,
           const struct hopper_tile &tile, int block, int stage)
{
    load_block<Config>(shared->K[stage], &problem.maps.K, block, tile.kv_head,
                       &shared->K_full[stage]);
    load_block<Config>(shared->V[stage], &problem.maps.V, block, tile.kv_head,
                       &shared->V_full[stage]);
}

template <class Config>
static __device__ __forceinline__ void
store_tile(const struct hopper_problem &problem, const struct hopper_tile &tile,
           float (&O)[Config::HEAD_DIM / 2], const float (&m)[2], const float (&l)[2])
{
    const int seq_q = problem.call.seq_q;
    const int head_dim = problem.call.head_dim;
    const int warp_row = tile.row0 + threadIdx.x / WARP * WARP_ROWS;
    const size_t first = (size_t)tile.head * seq_q; /* the head's first row */
    float *LSE = problem.call.LSE == NULL ? NULL : problem.call.LSE + first;
    finish_rows(O, m, l, LSE, warp_row, seq_q, problem.scale_log2);
    uint32_t packed[Config::HEAD_DIM / 4];
    pack_rows<typename Config::T>(packed, O);
    store_rows((typename Config::T *)problem.call.O + first * head_dim, packed, warp_row, seq_q,
               head_dim);
}

/* Computes one warpgroup's 64 rows of O. */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ void compute_rows(struct shared_tiles<Config> *shared,
                                                    const struct hopper_problem &problem,
                                                    const struct hopper_tile &tile, int warpgroup)
{
    struct consumer<Config> c;
    c.shared = shared;
    c.warpgroup = warpgroup;
    c.Q = shared->Q + warpgroup * WARPGROUP_ROWS * Config::HEAD_DIM;
    c.K_at = c.V_at = {0, 0};
    c.scale_log2 = problem.scale_log2;
    begin_rows<CAUSAL>(c, problem, tile);
    clear_output(c);

    mbarrier_wait(&shared->Q_full, 0);
    for (int block = tile.blocks - 1; block >= 0; block--) {
        const int stage = c.K_at.stage;
        float rescale[2];
        mbarrier_wait(&shared->K_full[c.K_at.stage], c.K_at.phase);
        start_scores(c, shared->K[c.K_at.stage]);
        finish_scores(c, block, block >= tile.unmasked, rescale);
        scale_rows(c.O, rescale);
        pack_rows<typename Config::T>(c.P, c.S);
        mbarrier_wait(&shared->V_full[c.V_at.stage], c.V_at.phase);
        start_output(c, shared->V[c.V_at.stage]);
        finish_output(c);

        __syncthreads(); /* both warpgroups are done with this stage before it is filled again */
        if (threadIdx.x == 0 && block >= Config::STAGES)
            load_stage(shared, problem, tile, block - Config::STAGES, stage);
    }
    store_tile<Config>(problem, tile, c.O, c.m, c.l);
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(Config::THREADS, 1)
    flash_wgmma(const __grid_constant__ struct hopper_problem problem)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<Config> *shared = (struct shared_tiles<Config> *)shared_memory;
    const struct hopper_tile tile = hopper_tile_of<Config::Br, CAUSAL>(problem, blockIdx.x);
    /* the shuffle tells the compiler that all lanes have the same value */
    const int warpgroup = __shfl_sync(FULL_MASK, threadIdx.x / 128, 0);

    if (threadIdx.x == 0)
        initialise_barriers(shared);
    __syncthreads(); /* the barriers exist before any thread waits on them */

    if (threadIdx.x == 0) {
        load_queries<Config>(shared->Q, problem, tile, &shared->Q_full);
        for (int stage = 0; stage < Config::STAGES && stage < tile.blocks; stage++)
            load_stage(shared, problem, tile, tile.blocks - 1 - stage, stage);
    }
    compute_rows<Config, CAUSAL>(shared, problem, tile, warpgroup);
}

template <typename T, int HEAD_DIM, bool CAUSAL, int WARPGROUPS = 2>
static cudaError_t launch(const struct attention *call)
{
    typedef config<T, HEAD_DIM, WARPGROUPS> Config;
    struct hopper_problem problem;
    const int bytes = sizeof(struct shared_tiles<Config>);
    cudaError_t status = prepare_hopper(&problem, call, Config::Br,
                                        (const void *)flash_wgmma<Config, CAUSAL>, bytes);
    if (status != cudaSuccess)
        return status;
    const int blocks = problem.order.tiles;
    flash_wgmma<Config, CAUSAL><<<blocks, Config::THREADS, bytes, call->stream>>>(problem);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_wgmma(const struct attention *call)
{
    return LAUNCH(call);
}
