// needs: sm_90a
/*
 * Idea: O leaves the way Q came, through shared memory and the copy engine.
 *
 *     for each block of BN keys, last to first:
 *         start S_next = Q * K_next^T          start O += P * V
 *         softmax of S_next as soon as that is there, while O is under way
 *         O = O * 2^(c * m - c * m_new)        P = P_next                        c = scale * log2 e
 *     at the end:  O = O / l                   LSE   = (c * m + log2 l) * ln 2
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], halves; LSE
 * [batch, heads, seq_q], float; row-major. HEAD_DIM is head_dim, a multiple of 8, rounded up to 64
 * or 128, the rest zeros.
 *
 * Roles and steps as in ping_pong. There every thread stored its O in pieces of 4 bytes: a warp's
 * store touched 8 rows, 16 bytes of each, half a sector. Here a warp writes its 16 rows as halves
 * into a swizzled panel of shared memory, with stmatrix, and one thread orders the copy engine to
 * store it: whole rows, and what lies past seq_q or head_dim is left out. Short sequences gain
 * most, they store most often.
 *
 * Cost: as producer_warp's.
 *
 * Source: PTX ISA, cp.async.bulk.tensor, mbarrier, wgmma; Shah et al., FlashAttention-3
 * (arXiv:2407.08608).
 */
#include "06_step.h"
#include "ping_pong.cuh"
#include "producer.cuh"
#include "tma_store.cuh"

struct tma_store_problem {
    struct hopper_problem of_tiles;
    CUtensorMap O;
};

template <int HEAD_DIM>
struct tma_store_tiles {
    __half O[config<HEAD_DIM>::BM * HEAD_DIM]; /* on its way out */
    struct shared_tiles<HEAD_DIM> in;
};

/* Computes one warpgroup's 64 rows of O. */
template <int HEAD_DIM, bool CAUSAL>
static __device__ __forceinline__ void consume(struct tma_store_tiles<HEAD_DIM> *shared,
                                               const struct tma_store_problem &stored,
                                               const struct hopper_tile &tile, int warpgroup)
{
    const struct hopper_problem &problem = stored.of_tiles;
    const int seq_q = problem.shape.seq_q, seq_kv = problem.shape.seq_kv;
    const int lane = threadIdx.x % 32;
    const int warp_row =
        tile.row0 + warpgroup * WARPGROUP_ROWS + threadIdx.x % 128 / 32 * WARP_ROWS;
    int visible[2];
    find_visible<CAUSAL>(visible, warp_row, seq_q, seq_kv);
    const __half *Q = shared->in.Q + warpgroup * WARPGROUP_ROWS * HEAD_DIM;
    struct rows<HEAD_DIM> rows;
    clear_rows(rows);
    constexpr int WARPGROUPS = config<HEAD_DIM>::WARPGROUPS;
    struct key_value_ring<HEAD_DIM, config<HEAD_DIM>::STAGES> &ring = shared->in.ring;
    struct ring_position K_at = {0, 0}, V_at = {0, 0};

    begin_turns<WARPGROUPS>(warpgroup);
    mbarrier_wait(&shared->in.Q_full, 0);
    int block = tile.blocks - 1;
    first_step<WARPGROUPS>(ring, rows, Q, K_at, warpgroup, block >= tile.unmasked, block * BN,
                           visible, problem.scale_log2);
    for (block--; block >= tile.unmasked; block--)
        step<WARPGROUPS>(ring, rows, Q, K_at, V_at, warpgroup, true, block * BN, visible,
                         problem.scale_log2);
    for (; block >= 0; block--)
        step<WARPGROUPS>(ring, rows, Q, K_at, V_at, warpgroup, false, block * BN, visible,
                         problem.scale_log2);
    last_step(ring, rows, V_at);
    end_turns<WARPGROUPS>(warpgroup);

    float *LSE = problem.LSE == NULL ? NULL : problem.LSE + (size_t)tile.head * seq_q;
    finish_rows(rows.O, rows.m, rows.l, LSE, warp_row, seq_q, problem.scale_log2);
    __half *staging = shared->O + (warp_row - tile.row0) * HEAD_DIM;
    uint32_t packed[HEAD_DIM / 4];
    pack_rows(packed, rows.O);
    store_rows_by_tma<HEAD_DIM>(&stored.O, staging, packed, warp_row, tile.head);
    if (lane == 0)
        tma_store_wait<0>(); /* shared memory stays this block's until it has been read */
}

template <int HEAD_DIM, bool CAUSAL>
__global__ void __launch_bounds__(config<HEAD_DIM>::THREADS, 1)
    flash_tma_store(const __grid_constant__ struct tma_store_problem problem)
{
    constexpr int WARPGROUPS = config<HEAD_DIM>::WARPGROUPS;
    extern __shared__ __align__(1024) char shared_memory[];
    struct tma_store_tiles<HEAD_DIM> *shared = (struct tma_store_tiles<HEAD_DIM> *)shared_memory;
    const struct hopper_tile tile =
        hopper_tile_of<config<HEAD_DIM>::BM, CAUSAL>(problem.of_tiles, blockIdx.x);
    const int warpgroup =
        /* tells the compiler: the same in all lanes */
        __shfl_sync(0xffffffff, threadIdx.x / 128, 0);

    if (threadIdx.x == 0)
        initialise_barriers(&shared->in);
    __syncthreads(); /* the barriers exist before anyone waits on them */

    if (warpgroup == WARPGROUPS) {
        registers_decrease<registers<HEAD_DIM>::PRODUCER>();
        if (threadIdx.x == 128 * WARPGROUPS)
            produce<HEAD_DIM>(&shared->in, problem.of_tiles, tile);
    } else {
        registers_increase<registers<HEAD_DIM>::CONSUMER>();
        consume<HEAD_DIM, CAUSAL>(shared, problem, tile, warpgroup);
    }
}

template <int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention *call)
{
    struct tma_store_problem problem;
    cudaError_t status = describe_hopper_problem(&problem.of_tiles, call, config<HEAD_DIM>::BM);
    if (status == cudaSuccess)
        status = describe_output(&problem.O, call);
    if (status != cudaSuccess)
        return status;
    return launch_hopper(flash_tma_store<HEAD_DIM, CAUSAL>, problem, problem.of_tiles.order.tiles,
                         config<HEAD_DIM>::THREADS, sizeof(struct tma_store_tiles<HEAD_DIM>),
                         call->stream);
}

extern "C" cudaError_t attention_tma_store(const struct attention *call)
{
    if (call->head_dim <= 64)
        return call->causal ? launch<64, true>(call) : launch<64, false>(call);
    return call->causal ? launch<128, true>(call) : launch<128, false>(call);
}
