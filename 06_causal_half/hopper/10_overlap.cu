// needs: sm_90a
/*
 * Idea: a warpgroup computes the softmax of the next block of keys while the tensor cores still
 * compute P·V of this one.
 *
 *     for each block of Bc keys, last to first:
 *         start S_next = Q·K_nextᵀ             start O += P·V
 *         softmax of S_next as soon as that is there, while O is under way
 *         O = O · 2^(c · m - c · m_new)        P = P_next                        c = scale · log2 e
 *     at the end:  O = O / l                   LSE   = (c · m + log2 l) · ln 2
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], elements of type
 * T; LSE [batch, heads, seq_q], float; row-major. HEAD_DIM is head_dim, a multiple of 8, rounded up
 * to 64 or 128, the rest zeros.
 *
 * Roles as in producer_warp. A warpgroup keeps two products in flight: wgmma is asynchronous, so it
 * waits only for the older one, Q·Kᵀ, and computes exponentials while the other runs. V runs one
 * block behind K: the first block has a product and a softmax of its own, the last an output of its
 * own. P must stay as it is until its product is done, so S holds the next P as floats meanwhile:
 * per thread 64 registers of S, 32 of P and HEAD_DIM / 2 of O.
 *
 * Blocks that need the mask have a loop of their own: most tiles have one or none beside the first.
 *
 * Cost: as producer_warp's.
 *
 * Source: PTX ISA, cp.async.bulk.tensor, mbarrier, wgmma; Shah et al., FlashAttention-3
 * (arXiv:2407.08608).
 */
#include "06_causal_half/06_step.h"
#include "producer.cuh"

/* The scores of one block, while the output of the block before is under way. */
template <class Config>
static __device__ __forceinline__ void next_scores(struct consumer<Config> &c, int block,
                                                   bool masked)
{
    mbarrier_wait(&c.shared->K_full[c.K_at.stage], c.K_at.phase);
    start_scores(c, c.shared->K[c.K_at.stage]);
    mbarrier_wait(&c.shared->V_full[c.V_at.stage], c.V_at.phase);
    start_output(c, c.shared->V[c.V_at.stage]);
    wgmma_wait<1>();
    wgmma_hold(c.S);
    if (threadIdx.x % WARP == 0)
        mbarrier_arrive(&c.shared->K_empty[c.K_at.stage]);
    advance<Config::STAGES>(c.K_at);
    if (masked)
        mask_scores(c.S, block * Bc, c.visible);
}

/* The scores and softmax of one block, and the output of the block before. Then O is complete up to
 * the block before, and `rescale` is the factor that it needs because of the new block. */
template <class Config>
static __device__ __forceinline__ void both_products(struct consumer<Config> &c, int block,
                                                     bool masked, float (&rescale)[2])
{
    next_scores(c, block, masked);
    online_softmax(c.S, c.m, c.l, rescale, c.scale_log2);
    finish_output(c);
}

/* The same, ready for the next. */
template <class Config>
static __device__ __forceinline__ void step(struct consumer<Config> &c, int block, bool masked)
{
    float rescale[2];
    both_products(c, block, masked, rescale);
    scale_rows(c.O, rescale);
    pack_rows<typename Config::T>(c.P, c.S);
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
    /* The first block: there is no output yet to overlap with. */
    int block = tile.blocks - 1;
    float rescale[2];
    mbarrier_wait(&shared->K_full[c.K_at.stage], c.K_at.phase);
    start_scores(c, shared->K[c.K_at.stage]);
    finish_scores(c, block, block >= tile.unmasked, rescale);
    pack_rows<typename Config::T>(c.P, c.S);

    for (block--; block >= tile.unmasked; block--)
        step(c, block, true);
    for (; block >= 0; block--)
        step(c, block, false);

    /* The last block's output. */
    mbarrier_wait(&shared->V_full[c.V_at.stage], c.V_at.phase);
    start_output(c, shared->V[c.V_at.stage]);
    finish_output(c);
    store_tile<Config>(problem, tile, c.O, c.m, c.l);
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(Config::THREADS, 1)
    flash_overlap(const __grid_constant__ struct hopper_problem problem)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<Config> *shared = (struct shared_tiles<Config> *)shared_memory;
    const struct hopper_tile tile = hopper_tile_of<Config::Br, CAUSAL>(problem, blockIdx.x);
    /* the shuffle tells the compiler that all lanes have the same value */
    const int warpgroup = __shfl_sync(FULL_MASK, threadIdx.x / 128, 0);

    if (threadIdx.x == 0)
        initialise_barriers(shared);
    __syncthreads(); /* the barriers exist before any thread waits on them */

    /* The launch's registers, 65536 over THREADS, move from the producer to the consumers. */
    if (warpgroup == Config::WARPGROUPS) {
        registers_decrease<Config::WARPGROUPS == 3 ? 32 : 40>();
        if (threadIdx.x == 128 * Config::WARPGROUPS)
            produce(shared, problem, tile);
    } else {
        registers_increase<Config::WARPGROUPS == 3 ? 160 : 232>();
        compute_rows<Config, CAUSAL>(shared, problem, tile, warpgroup);
    }
}

template <typename T, int HEAD_DIM, bool CAUSAL, int WARPGROUPS = HOPPER_WARPGROUPS(HEAD_DIM)>
static cudaError_t launch(const struct attention *call)
{
    typedef config<T, HEAD_DIM, WARPGROUPS> Config;
    struct hopper_problem problem;
    const int bytes = sizeof(struct shared_tiles<Config>);
    cudaError_t status = prepare_hopper(&problem, call, Config::Br,
                                        (const void *)flash_overlap<Config, CAUSAL>, bytes);
    if (status != cudaSuccess)
        return status;
    const int blocks = problem.order.tiles;
    flash_overlap<Config, CAUSAL><<<blocks, Config::THREADS, bytes, call->stream>>>(problem);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_overlap(const struct attention *call)
{
    return LAUNCH(call);
}
