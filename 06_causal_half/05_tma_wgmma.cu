// needs: sm_90a
/*
 * Idea: Hopper's engines. One thread orders whole tiles from the copy engine, four warps multiply
 * as one.
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
 * A block owns BM = 128 queries of one head, each of its two warpgroups 64. TMA brings a tile with
 * one instruction per 64 columns, swizzled, with zeros where the array ends, and counts its bytes
 * on an mbarrier; K and V have STAGES places each, and each place a barrier that is full once per
 * use. wgmma reads K and V, and Q, straight from shared memory: ldmatrix and its registers are
 * gone. P stays in registers, as the left factor of the second product.
 *
 * Everything still happens in turn: load (ahead), product, softmax, product, barrier. While a
 * warpgroup does its softmax its tensor cores have only the other warpgroup's products to do.
 *
 * Cost: global traffic as half's with this BM. Shared: wgmma reads K and V once per warpgroup and
 * block, 4 * BN * HEAD_DIM bytes for 128 * BN * HEAD_DIM multiply-adds, a quarter of mma's.
 *
 * Source: PTX ISA, cp.async.bulk.tensor, mbarrier, wgmma; Shah et al., FlashAttention-3
 * (arXiv:2407.08608).
 */
#include "06_step.h"
#include "hopper_tile.cuh"

static const int WARPGROUPS = 2;
static const int BM = WARPGROUPS * WARPGROUP_ROWS;
static const int THREADS = 128 * WARPGROUPS;
static const int STAGES = 2;

template <int HEAD_DIM>
struct shared_tiles {
    __half Q[BM * HEAD_DIM];
    __half K[STAGES][BN * HEAD_DIM];
    __half V[STAGES][BN * HEAD_DIM];
    uint64_t Q_full, K_full[STAGES], V_full[STAGES];
};

template <int HEAD_DIM, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, 1)
    flash_tma_wgmma(const __grid_constant__ struct hopper_problem problem)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<HEAD_DIM> *shared = (struct shared_tiles<HEAD_DIM> *)shared_memory;

    const int seq_q = problem.shape.seq_q, seq_kv = problem.shape.seq_kv;
    const struct hopper_tile tile = hopper_tile_of<BM, CAUSAL>(problem, blockIdx.x);
    const int warpgroup =
        /* tells the compiler: the same in all lanes */
        __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
    const int warp_row = tile.row0 + threadIdx.x / 32 * WARP_ROWS;
    int visible[2];
    find_visible<CAUSAL>(visible, warp_row, seq_q, seq_kv);

    if (threadIdx.x == 0) {
        mbarrier_init(&shared->Q_full, 1);
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(&shared->K_full[stage], 1);
            mbarrier_init(&shared->V_full[stage], 1);
        }
        mbarrier_init_fence();
    }
    __syncthreads(); /* the barriers exist before anyone waits on them */

    if (threadIdx.x == 0) {
        load_queries<HEAD_DIM, WARPGROUPS>(shared->Q, &problem.Q, tile.row0, tile.head,
                                           &shared->Q_full);
        for (int stage = 0; stage < STAGES && stage < tile.blocks; stage++) {
            const int block = tile.blocks - 1 - stage;
            load_block<HEAD_DIM>(shared->K[stage], &problem.K, block, tile.kv_head,
                                 &shared->K_full[stage]);
            load_block<HEAD_DIM>(shared->V[stage], &problem.V, block, tile.kv_head,
                                 &shared->V_full[stage]);
        }
    }

    const __half *Q = shared->Q + warpgroup * WARPGROUP_ROWS * HEAD_DIM;
    float S[BN / 2] = {}, O[HEAD_DIM / 2] = {};
    uint32_t P[BN / 4];
    float m[2] = {-CUDART_INF_F, -CUDART_INF_F}, l[2] = {0.0f, 0.0f}, alpha[2];
    int stage = 0, phase = 0;

    mbarrier_wait(&shared->Q_full, 0);
    for (int block = tile.blocks - 1; block >= 0; block--) {
        mbarrier_wait(&shared->K_full[stage], phase);
        start_scores<HEAD_DIM>(S, Q, shared->K[stage]);
        wgmma_wait<0>();
        wgmma_hold(S);

        if (block >= tile.unmasked)
            mask_scores(S, block * BN, visible);
        online_softmax(S, m, l, alpha, problem.scale_log2);
        scale_rows(O, alpha);
        pack_rows(P, S);

        mbarrier_wait(&shared->V_full[stage], phase);
        start_output<HEAD_DIM>(O, P, shared->V[stage]);
        wgmma_wait<0>();
        wgmma_hold(O);

        __syncthreads(); /* everyone is done with this stage's K and V before it is filled again */
        if (threadIdx.x == 0 && block >= STAGES) {
            load_block<HEAD_DIM>(shared->K[stage], &problem.K, block - STAGES, tile.kv_head,
                                 &shared->K_full[stage]);
            load_block<HEAD_DIM>(shared->V[stage], &problem.V, block - STAGES, tile.kv_head,
                                 &shared->V_full[stage]);
        }
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }

    float *LSE = problem.LSE == NULL ? NULL : problem.LSE + (size_t)tile.head * seq_q;
    finish_rows(O, m, l, LSE, warp_row, seq_q, problem.scale_log2);
    store_rows(problem.O + (size_t)tile.head * seq_q * problem.shape.head_dim, O, warp_row, seq_q,
               problem.shape.head_dim);
}

template <int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention *call)
{
    struct hopper_problem problem;
    const cudaError_t status = describe_hopper_problem(&problem, call, BM);
    if (status != cudaSuccess)
        return status;
    return launch_hopper(flash_tma_wgmma<HEAD_DIM, CAUSAL>, problem, problem.order.tiles, THREADS,
                         sizeof(struct shared_tiles<HEAD_DIM>), call->stream);
}

extern "C" cudaError_t attention_tma_wgmma(const struct attention *call)
{
    if (call->head_dim <= 64)
        return call->causal ? launch<64, true>(call) : launch<64, false>(call);
    return call->causal ? launch<128, true>(call) : launch<128, false>(call);
}
