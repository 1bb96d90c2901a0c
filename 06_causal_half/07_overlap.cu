// needs: sm_90a
/*
 * Idea: the scores of the next block are computed while the softmax of this one is, and its output
 * while that goes on.
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
 * Roles as in producer_warp. A warpgroup keeps two products in flight: wgmma is asynchronous, so it
 * waits only for the older one, Q * K^T, and computes exponentials under the other. V runs one
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
#include "06_step.h"
#include "producer.cuh"
#include "rows.cuh"

/* One block: its scores and softmax, and the output of the block before. */
template <bool MASKED, int HEAD_DIM, int STAGES>
static __device__ __forceinline__ void
step(struct key_value_ring<HEAD_DIM, STAGES> &ring, struct rows<HEAD_DIM> &rows, const __half *Q,
     struct ring_position &K_at, struct ring_position &V_at, int first_key, const int (&visible)[2],
     float scale_log2)
{
    const int lane = threadIdx.x % 32;
    float alpha[2];

    mbarrier_wait(&ring.K_full[K_at.stage], K_at.phase);
    start_scores<HEAD_DIM>(rows.S, Q, ring.K[K_at.stage]);
    mbarrier_wait(&ring.V_full[V_at.stage], V_at.phase);
    start_output<HEAD_DIM>(rows.O, rows.P, ring.V[V_at.stage]);

    wgmma_wait<1>();
    wgmma_hold(rows.S);
    if (lane == 0)
        mbarrier_arrive(&ring.K_empty[K_at.stage]);
    if (MASKED)
        mask_scores(rows.S, first_key, visible);
    online_softmax(rows.S, rows.m, rows.l, alpha, scale_log2);

    wgmma_wait<0>();
    wgmma_hold(rows.O);
    if (lane == 0)
        mbarrier_arrive(&ring.V_empty[V_at.stage]);
    scale_rows(rows.O, alpha);
    pack_rows(rows.P, rows.S);
    advance<STAGES>(K_at);
    advance<STAGES>(V_at);
}

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
    struct rows<HEAD_DIM> rows;
    clear_rows(rows);
    float alpha[2];
    constexpr int STAGES = config<HEAD_DIM>::STAGES;
    struct key_value_ring<HEAD_DIM, STAGES> &ring = shared->ring;
    struct ring_position K_at = {0, 0}, V_at = {0, 0};

    /* The first block: nothing to overlap with yet. */
    int block = tile.blocks - 1;
    mbarrier_wait(&shared->Q_full, 0);
    mbarrier_wait(&ring.K_full[0], 0);
    start_scores<HEAD_DIM>(rows.S, Q, ring.K[0]);
    wgmma_wait<0>();
    wgmma_hold(rows.S);
    if (lane == 0)
        mbarrier_arrive(&ring.K_empty[0]);
    mask_scores(rows.S, block * BN, visible);
    online_softmax(rows.S, rows.m, rows.l, alpha, problem.scale_log2);
    pack_rows(rows.P, rows.S);
    advance<STAGES>(K_at);

    for (block--; block >= tile.unmasked; block--)
        step<true>(ring, rows, Q, K_at, V_at, block * BN, visible, problem.scale_log2);
    for (; block >= 0; block--)
        step<false>(ring, rows, Q, K_at, V_at, block * BN, visible, problem.scale_log2);

    /* The last block's output. */
    mbarrier_wait(&ring.V_full[V_at.stage], V_at.phase);
    start_output<HEAD_DIM>(rows.O, rows.P, ring.V[V_at.stage]);
    wgmma_wait<0>();
    wgmma_hold(rows.O);

    float *LSE = problem.LSE == NULL ? NULL : problem.LSE + (size_t)tile.head * seq_q;
    finish_rows(rows.O, rows.m, rows.l, LSE, warp_row, seq_q, problem.scale_log2);
    store_rows(problem.O + (size_t)tile.head * seq_q * problem.shape.head_dim, rows.O, warp_row,
               seq_q, problem.shape.head_dim);
}

template <int HEAD_DIM, bool CAUSAL>
__global__ void __launch_bounds__(config<HEAD_DIM>::THREADS, 1)
    flash_overlap(const __grid_constant__ struct hopper_problem problem)
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
    return launch_hopper(flash_overlap<HEAD_DIM, CAUSAL>, problem, problem.order.tiles,
                         config<HEAD_DIM>::THREADS, sizeof(struct shared_tiles<HEAD_DIM>),
                         call->stream);
}

extern "C" cudaError_t attention_overlap(const struct attention *call)
{
    if (call->head_dim <= 64)
        return call->causal ? launch<64, true>(call) : launch<64, false>(call);
    return call->causal ? launch<128, true>(call) : launch<128, false>(call);
}
