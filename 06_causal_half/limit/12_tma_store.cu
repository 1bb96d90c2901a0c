// needs: sm_90a
/*
 * Idea: O leaves the way Q came, through shared memory and the copy engine.
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
 * Roles and steps as in ping_pong. There every thread stored its O in pieces of 4 bytes: a warp's
 * store touched 8 rows, 16 bytes of each, half a sector. Here a warp writes its 16 rows into a
 * swizzled panel of shared memory, with stmatrix, and one thread has the copy engine store
 * it: whole rows, and what lies past seq_q or head_dim is left out. Short sequences gain most, they
 * store most often.
 *
 * Cost: as producer_warp's; stores are one for each 16 rows and panel.
 *
 * Source: PTX ISA, cp.async.bulk.tensor, mbarrier, wgmma; Shah et al., FlashAttention-3
 * (arXiv:2407.08608).
 */
#include "06_causal_half/06_step.h"
#include "06_causal_half/hopper/producer.cuh"
#include "06_causal_half/hopper/ping_pong.cuh"
#include "persistent_tile.cuh"

/* `staging` is the warp's. */
template <class Config>
static __device__ __forceinline__ void
store_output(const struct hopper_problem &problem, const CUtensorMap *map,
             typename Config::T *staging, const struct hopper_tile &tile,
             float (&O)[Config::HEAD_DIM / 2], const float (&m)[2], const float (&l)[2])
{
    const int seq_q = problem.call.seq_q;
    const int warp_row = tile.row0 + threadIdx.x / WARP * WARP_ROWS;
    const size_t first = (size_t)tile.head * seq_q; /* the head's first row */
    float *LSE = problem.call.LSE == NULL ? NULL : problem.call.LSE + first;
    finish_rows(O, m, l, LSE, warp_row, seq_q, problem.scale_log2);
    uint32_t packed[Config::HEAD_DIM / 4];
    pack_rows<typename Config::T>(packed, O);
    store_by_tma<Config::HEAD_DIM>(map, staging, packed, warp_row, tile.head);
}

/* Computes one warpgroup's 64 rows of O. */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ void
compute_rows(struct shared_tiles<Config> *shared, const struct hopper_problem &problem,
             const CUtensorMap *map, const struct hopper_tile &tile, int warpgroup)
{
    /* the warp's, behind the tiles */
    typename Config::T *staging =
        (typename Config::T *)(shared + 1) + threadIdx.x / WARP * WARP_ROWS * Config::HEAD_DIM;
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
    store_output<Config>(problem, map, staging, tile, c.O, c.m, c.l);
    if (threadIdx.x % WARP == 0)
        tma_store_wait<0>(); /* shared memory stays this block's until it has been read */
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(Config::THREADS, 1)
    flash_tma_store(const __grid_constant__ struct hopper_problem problem,
                    const __grid_constant__ CUtensorMap map)
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
        compute_rows<Config, CAUSAL>(shared, problem, &map, tile, warpgroup);
    }
}

template <typename T, int HEAD_DIM, bool CAUSAL, int WARPGROUPS = HOPPER_WARPGROUPS(HEAD_DIM)>
static cudaError_t launch(const struct attention *call)
{
    typedef config<T, HEAD_DIM, WARPGROUPS> Config;
    struct hopper_problem problem;
    CUtensorMap map;
    const int bytes = sizeof(struct shared_tiles<Config>) + Config::Br * HEAD_DIM * sizeof(T);
    cudaError_t status = prepare_hopper(&problem, call, Config::Br,
                                        (const void *)flash_tma_store<Config, CAUSAL>, bytes);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&map, call->O, (size_t)call->batch * call->heads, call->seq_q,
                                      call->head_dim, WARP_ROWS);
    if (status != cudaSuccess)
        return status;
    const int blocks = problem.order.tiles;
    flash_tma_store<Config, CAUSAL><<<blocks, Config::THREADS, bytes, call->stream>>>(problem, map);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_tma_store(const struct attention *call)
{
    return LAUNCH(call);
}
