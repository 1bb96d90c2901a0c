// needs: sm_90a
/*
 * Idea: the warpgroups take turns at the tensor cores, so that one computes its softmax while
 * another's products run.
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
 * Roles as in producer_warp, two products in flight as in overlap. Left alone, the warpgroups tend
 * to march in step: all multiply, then all compute exponentials, and the tensor cores idle. So the
 * right to start products goes around: a warpgroup waits for its turn, starts the scores of the
 * next block and the output of this one, and passes the turn on before it waits for either.
 *
 *     warpgroup 0   products  softmax.......  products  softmax.......
 *     warpgroup 1   softmax...........  products  softmax.......  products
 *
 * Cost: as producer_warp's, and two named barriers for each warpgroup and block.
 *
 * Source: PTX ISA, cp.async.bulk.tensor, mbarrier, wgmma; Shah et al., FlashAttention-3
 * (arXiv:2407.08608).
 */
#include "06_causal_half/06_step.h"
#include "producer.cuh"
#include "ping_pong.cuh"

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

    /* The first turn is warpgroup 0's, as if the last warpgroup had passed it on. */
    if (warpgroup == Config::WARPGROUPS - 1)
        pass_turn(c);
    mbarrier_wait(&shared->Q_full, 0);
    /* The first block: there is no output yet to overlap with. */
    int block = tile.blocks - 1;
    float rescale[2];
    mbarrier_wait(&shared->K_full[c.K_at.stage], c.K_at.phase);
    take_turn(c);
    start_scores(c, shared->K[c.K_at.stage]);
    pass_turn(c);
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
    /* Warpgroup 0 takes the last turn too: no barrier is left with half of its threads. */
    if (warpgroup == 0)
        take_turn(c);
    store_tile<Config>(problem, tile, c.O, c.m, c.l);
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(Config::THREADS, 1)
    flash_ping_pong(const __grid_constant__ struct hopper_problem problem)
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
                                        (const void *)flash_ping_pong<Config, CAUSAL>, bytes);
    if (status != cudaSuccess)
        return status;
    const int blocks = problem.order.tiles;
    flash_ping_pong<Config, CAUSAL><<<blocks, Config::THREADS, bytes, call->stream>>>(problem);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_ping_pong(const struct attention *call)
{
    return LAUNCH(call);
}
