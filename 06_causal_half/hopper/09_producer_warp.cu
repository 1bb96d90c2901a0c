// needs: sm_90a
/*
 * Idea: one warp only loads, warpgroups only compute; no block-wide barrier holds them together.
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
 * A block is a producer warpgroup, of which one thread works (producer.cuh), and two or three
 * consumers with 64 queries each. Loads are issued as soon as a place is empty, products begin as
 * soon as one is full: consumers may now be a stage apart, and one's softmax meets the other's
 * products more often. The producer needs few registers: it gives back what it got at launch, and
 * the consumers take it (setmaxnreg). At HEAD_DIM 64, where O is small, that leaves room for three
 * consumers: each block of K and V then serves 192 queries.
 *
 * Cost: global traffic as half's with this Br. Shared as wgmma's.
 *
 * Source: PTX ISA, cp.async.bulk.tensor, mbarrier, wgmma; Shah et al., FlashAttention-3
 * (arXiv:2407.08608).
 */
#include "06_causal_half/06_step.h"
#include "producer.cuh"

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
        float rescale[2];
        mbarrier_wait(&shared->K_full[c.K_at.stage], c.K_at.phase);
        start_scores(c, shared->K[c.K_at.stage]);
        finish_scores(c, block, block >= tile.unmasked, rescale);
        scale_rows(c.O, rescale);
        pack_rows<typename Config::T>(c.P, c.S);
        mbarrier_wait(&shared->V_full[c.V_at.stage], c.V_at.phase);
        start_output(c, shared->V[c.V_at.stage]);
        finish_output(c);
    }
    store_tile<Config>(problem, tile, c.O, c.m, c.l);
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(Config::THREADS, 1)
    flash_producer_warp(const __grid_constant__ struct hopper_problem problem)
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
                                        (const void *)flash_producer_warp<Config, CAUSAL>, bytes);
    if (status != cudaSuccess)
        return status;
    const int blocks = problem.order.tiles;
    flash_producer_warp<Config, CAUSAL><<<blocks, Config::THREADS, bytes, call->stream>>>(problem);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_producer_warp(const struct attention *call)
{
    return LAUNCH(call);
}
