// needs: sm_90a
/*
 * Idea: a warpgroup multiplies 64 keys by a whole tile of queries at a time, straight from where
 * the copy engine put them; a producer warp keeps the next tiles coming.
 *
 *     Sᵀ = K·Qᵀ      dPᵀ = V·dOᵀ      Pᵀ = 2^(c · Sᵀ - LSE · log2 e)      dSᵀ = Pᵀ∘(dPᵀ - D)
 *     dV += Pᵀ·dO    dK += dSᵀ·Q      dQ += dS·K                          c = scale · log2 e
 *
 * Q, O, dO, dQ [batch, heads, seq_q, head_dim], K, V, dK, dV [batch, kv_heads, seq_kv, head_dim],
 * elements of type T; LSE [batch, heads, seq_q], float; row-major. HEAD_DIM is head_dim, a multiple
 * of 8, rounded up to 64 or 128, the rest zeros. The workspace has D = rowsum(dO∘O) and dQ as
 * floats, a tile of Br queries after the other, each in the order in which threads hold it.
 *
 * A block owns Bc = 128 keys of one key/value head, each of two warpgroups 64 of them. Tiles of Br
 * queries pass by, those of Q and dO in a ring of two places. Per tile a warpgroup makes its part
 * of Sᵀ and dPᵀ, and adds to its dV and dK with Pᵀ and dSᵀ as left factors in registers. For dQ all
 * 128 keys are wanted: dS goes through shared memory, and each warpgroup takes half of the tile's
 * dQ, its dS from there to registers by ldmatrix, transposed. dPᵀ is under way while Pᵀ is made,
 * dV's product while dS is stored, and dK's while it is loaded.
 *
 * What a thread has of dQ after the product are 32 floats of odd places in the matrix. The
 * workspace takes them as they come: four of them are one red.v4, and neighbouring threads add to
 * neighbouring places. A last kernel puts them where they belong.
 *
 * Registers, per consumer thread: dK and dV HEAD_DIM / 2 each, Sᵀ and dPᵀ Br / 2 each, dQ 32, the
 * left factors Br / 4 and 32. With Br = 128 at HEAD_DIM 64 and 64 at 128 the first four are 192 of
 * the 240 that a consumer gets.
 *
 * Cost: global: K and V once per block; Q, dO, LSE and D once per block and tile that sees one of
 * its keys, and as often four bytes added for every element of dQ. Shared: 131 KB at HEAD_DIM 64,
 * 146 KB at 128.
 *
 * Source: PTX ISA, wgmma, cp.async.bulk.tensor; Shah et al., FlashAttention-3 (arXiv:2407.08608).
 */
#include "warpgroup_keys.cuh"

/* Everything lies in panels of 64 columns, rows of 128 bytes, swizzled as the copy engine does. */
template <class Config>
struct __align__(1024) shared_tiles
{
    typename Config::T K[Bc * Config::HEAD_DIM], V[Bc * Config::HEAD_DIM];
    typename Config::T Q[STAGES][Config::Br * Config::HEAD_DIM];
    typename Config::T dO[STAGES][Config::Br * Config::HEAD_DIM];
    typename Config::T dS[Bc * Config::Br]; /* transposed */
    float LSE[STAGES][Config::Br], D[STAGES][Config::Br];
    uint64_t keys_full, Q_full[STAGES], dO_full[STAGES], empty[STAGES];
};

template <class Config, bool CAUSAL>
static __device__ __forceinline__ void
consume(struct shared_tiles<Config> *shared, const struct backward_problem &problem, int warpgroup)
{
    typedef typename Config::T T;
    const int HEAD_DIM = Config::HEAD_DIM, Br = Config::Br;
    const struct attention_backward &call = problem.call;
    const int seq_q = call.seq_q, seq_kv = call.seq_kv, group = call.heads / call.kv_heads;
    int kv_head, key0;
    find_block<CAUSAL>(kv_head, key0, call);
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int warp_key = warp * 16, g = lane / ROW_LANES, t = lane % ROW_LANES;
    const int warp_query = first_query<Config>(warpgroup) + warp % 4 * 16;
    const T *K_rows = shared->K + warpgroup * WARPGROUP_KEYS * PANEL_COLS;
    const T *V_rows = shared->V + warpgroup * WARPGROUP_KEYS * PANEL_COLS;
    const T *K_columns = shared->K + first_feature<Config>(warpgroup) * Bc;
    float acc_K[HEAD_DIM / 2] = {}, acc_V[HEAD_DIM / 2] = {};

    const int first_row = backward_first_query(CAUSAL, key0, seq_q, seq_kv, Br);
    int stage = 0, phase = 0;
    mbarrier_wait(&shared->keys_full, 0);
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int row0 = first_row; row0 < seq_q; row0 += Br) {
            const T *Q = shared->Q[stage], *dO = shared->dO[stage];
            float S[Br / 2], dS[Br / 2];
            mbarrier_wait(&shared->Q_full[stage], phase);
            start_rows<Config>(S, K_rows, Q);
            mbarrier_wait(&shared->dO_full[stage], phase);
            start_rows<Config>(dS, V_rows, dO);

            wgmma_wait<1>(); /* Sᵀ is there */
            wgmma_hold(S);
            const bool masked = visible_keys<CAUSAL>(row0, seq_q, seq_kv) < key0 + Bc;
#pragma unroll
            for (int i = 0; i < Br / 2; i++) {
                const int row = 8 * (i / 4) + 2 * t + i % 2;
                S[i] = exp2_approximate(S[i] * problem.scale_log2 - shared->LSE[stage][row]);
                const int key = key0 + warp_key + g + 8 * (i / 2 % 2);
                if (masked && key >= visible_keys<CAUSAL>(row0 + row, seq_q, seq_kv))
                    S[i] = 0.0f;
            }
            wgmma_wait<0>(); /* and dPᵀ */
            wgmma_hold(dS);
#pragma unroll
            for (int i = 0; i < Br / 2; i++)
                dS[i] = S[i] * (dS[i] - shared->D[stage][8 * (i / 4) + 2 * t + i % 2]);
            uint32_t P[Br / 4], packed[Br / 4];
            pack_rows<T>(P, S);
            pack_rows<T>(packed, dS);
            start_columns<T, Br, Br, HEAD_DIM>(acc_V, P, dO, true);
            named_barrier_sync(1, WARPGROUP * CONSUMERS); /* nobody reads the last tile's dS */
            store_dS<Config>(shared->dS, packed, warp_key);
            start_columns<T, Br, Br, HEAD_DIM>(acc_K, packed, Q, true);
            named_barrier_sync(2, WARPGROUP * CONSUMERS); /* dS is complete */

            wgmma_wait<1>(); /* dV has this tile, and A may have the registers of P */
            wgmma_hold(acc_V);
            wgmma_hold(P);
            uint32_t A[Bc / 4];
            float acc_Q[OWN_Q];
            load_dS<Config>(A, shared->dS, warp_query);
            start_columns<T, Bc, Bc, 2 * OWN_Q>(acc_Q, A, K_columns, false);
            wgmma_wait<0>();
            wgmma_hold(acc_K);
            wgmma_hold(packed);
            wgmma_hold(acc_Q);
            wgmma_hold(A);
            if (lane == 0)
                mbarrier_arrive(&shared->empty[stage]);
            float *half = half_of_dQ<Config>(problem.dQ, head, row0, seq_q, warpgroup);
#pragma unroll
            for (int i = 0; i < OWN_Q; i += 4)
                red_add_4(&half[own_place(i)],
                          make_float4(acc_Q[i], acc_Q[i + 1], acc_Q[i + 2], acc_Q[i + 3]));
            stage ^= 1;
            phase ^= stage == 0;
        }

    uint32_t packed[HEAD_DIM / 4];
    const size_t keys = (size_t)kv_head * seq_kv * call.head_dim;
    pack_rows<T>(packed, acc_V);
    store_rows((T *)call.dV + keys, packed, key0 + warp_key, seq_kv, call.head_dim);
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; i++)
        acc_K[i] *= call.scale;
    pack_rows<T>(packed, acc_K);
    store_rows((T *)call.dK + keys, packed, key0 + warp_key, seq_kv, call.head_dim);
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, 1)
    backward_wgmma(const __grid_constant__ struct backward_problem problem)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<Config> *shared = (struct shared_tiles<Config> *)shared_memory;
    /* the shuffle tells the compiler that all lanes have the same value */
    const int warpgroup = __shfl_sync(FULL_MASK, threadIdx.x / WARPGROUP, 0);

    if (threadIdx.x == 0) {
        mbarrier_init(&shared->keys_full, 1);
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(&shared->Q_full[stage], WARP);
            mbarrier_init(&shared->dO_full[stage], WARP);
            mbarrier_init(&shared->empty[stage], WARPGROUP / WARP * CONSUMERS);
        }
        mbarrier_init_fence();
    }
    __syncthreads(); /* the barriers exist before any thread waits on them */

    /* The launch's registers, 168 a thread, move from the producer to the consumers. */
    if (warpgroup == CONSUMERS) {
        registers_decrease<24>();
        if (threadIdx.x / WARP == CONSUMERS * WARPGROUP / WARP)
            produce<Config, CAUSAL>(shared, problem);
    } else {
        registers_increase<240>();
        consume<Config, CAUSAL>(shared, problem, warpgroup);
    }
}

template <typename T, int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention_backward *call)
{
    typedef config<T, HEAD_DIM> Config;
    const int tiles = call->batch * call->heads * ceil_div(call->seq_q, Config::Br);
    const size_t sums = (size_t)tiles * Config::Br * HEAD_DIM;
    float *dQ = (float *)call->workspace, *D = dQ + sums;
    const int bytes = sizeof(struct shared_tiles<Config>);
    struct backward_problem problem;
    cudaError_t status = describe(&problem, call, Config::Br);
    if (status == cudaSuccess)
        status = cudaFuncSetAttribute((const void *)backward_wgmma<Config, CAUSAL>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status == cudaSuccess) /* what is added to begins at 0 */
        status = cudaMemsetAsync(dQ, 0, sums * sizeof *dQ, call->stream);
    if (status != cudaSuccess)
        return status;
    problem.call = *call;
    problem.D = D;
    problem.dQ = dQ;
    problem.scale_log2 = call->scale * LOG2_E;

    launch_row_dots<T>(call, D);
    const int blocks = call->batch * call->kv_heads * ceil_div(call->seq_kv, Bc);
    backward_wgmma<Config, CAUSAL><<<blocks, THREADS, bytes, call->stream>>>(problem);
    backward_put_in_rows<Config><<<tiles, CONVERT_THREADS, 0, call->stream>>>(
        (T *)call->dQ, dQ, call->scale, call->seq_q, call->head_dim);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_backward_wgmma(const struct attention_backward *call)
{
    return LAUNCH(call);
}
