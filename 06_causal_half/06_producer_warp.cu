// needs: sm_90a
/*
 * Idea: one warp only loads, the warpgroups only compute, and no barrier of the whole block holds
 * them together.
 *
 *     for each block of BN keys, last to first:
 *         S = Q * K^T                     m_new = max(m, rowmax S)               c = scale * log2 e
 *         P = 2^(c * S - c * m_new)            l     = l * 2^(c * m - c * m_new) + rowsum P
 *                                              O     = O * 2^(c * m - c * m_new) + P * V
 *     at the end:  O = O / l                   LSE   = (c * m + log2 l) * ln 2
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], halves; LSE
 * [batch, heads, seq_q], float; row-major. HEAD_DIM is head_dim, a multiple of 8, rounded up to 64
 * or 128, the rest zeros.
 *
 * A block is a producer warpgroup, of which one thread works (producer.cuh), and two or three
 * consumers with 64 queries each. Loads are ordered as soon as a place is empty, products begin as
 * soon as one is full: consumers may now be a stage apart, and one's softmax meets the other's
 * products more often. The producer needs few registers: it gives back what it got at launch, and
 * the consumers take it (setmaxnreg).
 *
 * Cost: global traffic as half's with this BM. Shared as tma_wgmma's.
 *
 * Source: PTX ISA, cp.async.bulk.tensor, mbarrier, wgmma; Shah et al., FlashAttention-3
 * (arXiv:2407.08608).
 */
#include "06_step.h"
#include "producer.cuh"

/* Computes one warpgroup's 64 rows of O. */
template <int HEAD_DIM, bool CAUSAL>
static __device__ __forceinline__ void consume(struct shared_tiles<HEAD_DIM> *shared,
                                               const struct hopper_problem &problem,
                                               const struct hopper_tile &tile, int warpgroup)
{
    const int seq_q = problem.shape.seq_q, seq_kv = problem.shape.seq_kv;
    const int lane = threadIdx.x % 32;
    const int warp_row =
        tile.row0 + warpgroup * WARPGROUP_ROWS + threadIdx.x % 128 / 32 * WARP_ROWS;
    int visible[2];
    find_visible<CAUSAL>(visible, warp_row, seq_q, seq_kv);
    const __half *Q = shared->Q + warpgroup * WARPGROUP_ROWS * HEAD_DIM;
    float S[BN / 2] = {}, O[HEAD_DIM / 2] = {};
    uint32_t P[BN / 4];
    float m[2] = {-CUDART_INF_F, -CUDART_INF_F}, l[2] = {0.0f, 0.0f}, alpha[2];
    struct key_value_ring<HEAD_DIM, config<HEAD_DIM>::STAGES> &ring = shared->ring;
    struct ring_position at = {0, 0};

    mbarrier_wait(&shared->Q_full, 0);
    for (int block = tile.blocks - 1; block >= 0; block--) {
        mbarrier_wait(&ring.K_full[at.stage], at.phase);
        start_scores<HEAD_DIM>(S, Q, ring.K[at.stage]);
        wgmma_wait<0>();
        wgmma_hold(S);
        if (lane == 0)
            mbarrier_arrive(&ring.K_empty[at.stage]);

        if (block >= tile.unmasked)
            mask_scores(S, block * BN, visible);
        online_softmax(S, m, l, alpha, problem.scale_log2);
        scale_rows(O, alpha);
        pack_rows(P, S);

        mbarrier_wait(&ring.V_full[at.stage], at.phase);
        start_output<HEAD_DIM>(O, P, ring.V[at.stage]);
        wgmma_wait<0>();
        wgmma_hold(O);
        if (lane == 0)
            mbarrier_arrive(&ring.V_empty[at.stage]);
        advance<config<HEAD_DIM>::STAGES>(at);
    }

    float *LSE = problem.LSE == NULL ? NULL : problem.LSE + (size_t)tile.head * seq_q;
    finish_rows(O, m, l, LSE, warp_row, seq_q, problem.scale_log2);
    store_rows(problem.O + (size_t)tile.head * seq_q * problem.shape.head_dim, O, warp_row, seq_q,
               problem.shape.head_dim);
}

template <int HEAD_DIM, bool CAUSAL>
__global__ void __launch_bounds__(config<HEAD_DIM>::THREADS, 1)
    flash_producer_warp(const __grid_constant__ struct hopper_problem problem)
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
    return launch_hopper(flash_producer_warp<HEAD_DIM, CAUSAL>, problem, problem.order.tiles,
                         config<HEAD_DIM>::THREADS, sizeof(struct shared_tiles<HEAD_DIM>),
                         call->stream);
}

extern "C" cudaError_t attention_producer_warp(const struct attention *call)
{
    if (call->head_dim <= 64)
        return call->causal ? launch<64, true>(call) : launch<64, false>(call);
    return call->causal ? launch<128, true>(call) : launch<128, false>(call);
}
