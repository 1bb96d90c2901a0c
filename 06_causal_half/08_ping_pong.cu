// needs: sm_90a
/*
 * Idea: the warpgroups take turns at the tensor cores, so that one's softmax always runs under
 * another's products.
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
 * Roles as in producer_warp, two products in flight as in overlap. Left alone, the warpgroups tend
 * to march in step: all multiply, then all compute exponentials, and the tensor cores idle. Passing
 * the right to start products around keeps them apart (ping_pong.cuh):
 *
 *     warpgroup 0   products  softmax.......  products  softmax.......
 *     warpgroup 1   softmax...........  products  softmax.......  products
 *
 * Cost: as producer_warp's.
 *
 * Source: PTX ISA, cp.async.bulk.tensor, mbarrier, wgmma; Shah et al., FlashAttention-3
 * (arXiv:2407.08608).
 */
#include "06_step.h"
#include "ping_pong.cuh"
#include "producer.cuh"

/* Computes one warpgroup's 64 rows of O. */
template <int HEAD_DIM, bool CAUSAL>
static __device__ __forceinline__ void consume(struct shared_tiles<HEAD_DIM> *shared,
                                               const struct hopper_problem &problem,
                                               const struct hopper_tile &tile, int warpgroup)
{
    const int seq_q = problem.shape.seq_q, seq_kv = problem.shape.seq_kv;
    const int warp_row =
        tile.row0 + warpgroup * WARPGROUP_ROWS + threadIdx.x % 128 / 32 * WARP_ROWS;
    int visible[2];
    find_visible<CAUSAL>(visible, warp_row, seq_q, seq_kv);
    const __half *Q = shared->Q + warpgroup * WARPGROUP_ROWS * HEAD_DIM;
    struct rows<HEAD_DIM> rows;
    clear_rows(rows);
    constexpr int WARPGROUPS = config<HEAD_DIM>::WARPGROUPS;
    struct key_value_ring<HEAD_DIM, config<HEAD_DIM>::STAGES> &ring = shared->ring;
    struct ring_position K_at = {0, 0}, V_at = {0, 0};

    begin_turns<WARPGROUPS>(warpgroup);
    mbarrier_wait(&shared->Q_full, 0);
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
    store_rows(problem.O + (size_t)tile.head * seq_q * problem.shape.head_dim, rows.O, warp_row,
               seq_q, problem.shape.head_dim);
}

template <int HEAD_DIM, bool CAUSAL>
__global__ void __launch_bounds__(config<HEAD_DIM>::THREADS, 1)
    flash_ping_pong(const __grid_constant__ struct hopper_problem problem)
{
    constexpr int WARPGROUPS = config<HEAD_DIM>::WARPGROUPS;
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<HEAD_DIM> *shared = (struct shared_tiles<HEAD_DIM> *)shared_memory;
    const struct hopper_tile tile =
        hopper_tile_of<config<HEAD_DIM>::BM, CAUSAL>(problem, blockIdx.x);
    const int warpgroup =
        /* tells the compiler: the same in all lanes */
        __shfl_sync(0xffffffff, threadIdx.x / 128, 0);

    if (threadIdx.x == 0)
        initialise_barriers(shared);
    __syncthreads(); /* the barriers exist before anyone waits on them */

    if (warpgroup == WARPGROUPS) {
        registers_decrease<registers<HEAD_DIM>::PRODUCER>();
        if (threadIdx.x == 128 * WARPGROUPS)
            produce<HEAD_DIM>(shared, problem, tile);
    } else {
        registers_increase<registers<HEAD_DIM>::CONSUMER>();
        consume<HEAD_DIM, CAUSAL>(shared, problem, tile, warpgroup);
    }
}

template <int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention *call)
{
    struct hopper_problem problem;
    const cudaError_t status = describe_hopper_problem(&problem, call, config<HEAD_DIM>::BM);
    if (status != cudaSuccess)
        return status;
    return launch_hopper(flash_ping_pong<HEAD_DIM, CAUSAL>, problem, problem.order.tiles,
                         config<HEAD_DIM>::THREADS, sizeof(struct shared_tiles<HEAD_DIM>),
                         call->stream);
}

extern "C" cudaError_t attention_ping_pong(const struct attention *call)
{
    if (call->head_dim <= 64)
        return call->causal ? launch<64, true>(call) : launch<64, false>(call);
    return call->causal ? launch<128, true>(call) : launch<128, false>(call);
}
