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
#include "06_causal_half/06_step.h"
#include "backward_plan.h"
#include "row_dots.cuh"
#include "harness/tensor_map.h"

static const int Bc = BACKWARD_WGMMA_KEYS;
static const int PANEL_COLS = TENSOR_MAP_BOX_COLS;
static const int ROW_BYTES = PANEL_COLS * 2;
static const int WARPGROUP = 128, CONSUMERS = 2, THREADS = WARPGROUP * (CONSUMERS + 1);
static const int WARPGROUP_KEYS = Bc / CONSUMERS;
static const int STAGES = 2;
static const int CONVERT_THREADS = WARPGROUP * CONSUMERS;

/* The floats of dQ that a consumer thread has of a tile. */
static const int OWN_Q = 32;

template <typename ELEMENT, int D>
struct config {
    typedef ELEMENT T;
    static const int HEAD_DIM = D;
    static const int Br = BACKWARD_WGMMA_QUERIES(HEAD_DIM);
};

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

/* All that the kernel is told. Q and dO come in boxes of Br rows, K and V of Bc. */
struct backward_problem {
    CUtensorMap Q, K, V, dO;
    struct attention_backward call;
    const float *D;
    float *dQ;
    float scale_log2;
};

/* Which keys a block owns. With a mask the first keys are seen by most queries: those blocks come
 * first, and short ones fill the gaps. */
template <bool CAUSAL>
static __device__ __forceinline__ void find_block(int &kv_head, int &key0,
                                                  const struct attention_backward &call)
{
    const int key_tiles = ceil_div(call.seq_kv, Bc), kv_heads = call.batch * call.kv_heads;
    kv_head = CAUSAL ? blockIdx.x % kv_heads : blockIdx.x / key_tiles;
    key0 = (CAUSAL ? blockIdx.x / kv_heads : blockIdx.x % key_tiles) * Bc;
}

/* Where in a tile of ROWS rows the 8 elements of row `row` from column `col`, a multiple of 8,
 * begin. */
template <int ROWS>
static __device__ __forceinline__ int swizzled(int row, int col)
{
    return (col / PANEL_COLS * ROWS + row) * PANEL_COLS + (col % PANEL_COLS ^ row % 8 * 8);
}

/* ---- the producer ---- */

/* By one thread. */
template <int ROWS, int HEAD_DIM, typename T>
static __device__ __forceinline__ void load_panels(T *tile, const CUtensorMap *map, int row0,
                                                   int head, uint64_t *full)
{
#pragma unroll
    for (int col = 0; col < HEAD_DIM; col += PANEL_COLS)
        tma_load(shared_address(tile + col * ROWS), map, col, row0, head, full);
}

/* By a warp: one lane requests the tile, all bring a number for each query, and arrive. */
template <class Config>
static __device__ __forceinline__ void
load_queries(typename Config::T *tile, float *numbers, const CUtensorMap *map,
             const float *of_queries, int row0, int head, int queries, bool is_LSE, uint64_t *full)
{
    const int lane = threadIdx.x % WARP;
    for (int i = lane; i < Config::Br; i += WARP) {
        float number = i < queries ? of_queries[i] : is_LSE ? -CUDART_INF_F : 0.0f;
        /* A query that sees no key, or is none, has no weight: 2^(S - inf) = 0. */
        if (is_LSE)
            number = number == -CUDART_INF_F ? CUDART_INF_F : number * LOG2_E;
        numbers[i] = number;
    }
    if (lane == 0) {
        mbarrier_arrive_expect(full, Config::Br * Config::HEAD_DIM * sizeof *tile);
        load_panels<Config::Br, Config::HEAD_DIM>(tile, map, row0, head, full);
    } else {
        mbarrier_arrive(full);
    }
}

template <class Config, bool CAUSAL>
static __device__ __forceinline__ void produce(struct shared_tiles<Config> *shared,
                                               const struct backward_problem &problem)
{
    const struct attention_backward &call = problem.call;
    const int seq_q = call.seq_q, group = call.heads / call.kv_heads;
    int kv_head, key0;
    find_block<CAUSAL>(kv_head, key0, call);
    if (threadIdx.x % WARP == 0) {
        mbarrier_arrive_expect(&shared->keys_full, sizeof shared->K + sizeof shared->V);
        load_panels<Bc, Config::HEAD_DIM>(shared->K, &problem.K, key0, kv_head, &shared->keys_full);
        load_panels<Bc, Config::HEAD_DIM>(shared->V, &problem.V, key0, kv_head, &shared->keys_full);
    }
    const int first_row = backward_first_query(CAUSAL, key0, seq_q, call.seq_kv, Config::Br);
    int stage = 0, phase = 0;
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int row0 = first_row; row0 < seq_q; row0 += Config::Br) {
            const size_t query = (size_t)head * seq_q + row0;
            /* on a new barrier the phase before the first counts as over: new places are empty */
            mbarrier_wait(&shared->empty[stage], phase ^ 1);
            load_queries<Config>(shared->Q[stage], shared->LSE[stage], &problem.Q, call.LSE + query,
                                 row0, head, seq_q - row0, true, &shared->Q_full[stage]);
            load_queries<Config>(shared->dO[stage], shared->D[stage], &problem.dO,
                                 problem.D + query, row0, head, seq_q - row0, false,
                                 &shared->dO_full[stage]);
            stage ^= 1;
            phase ^= stage == 0;
        }
}

/* ---- products, by one warpgroup; each starts one group, to be waited for ---- */

/* x = A·Bᵀ: A are the warpgroup's 64 rows of K or V, B a tile of queries, all along features. */
template <class Config>
static __device__ __forceinline__ void
start_rows(float (&x)[Config::Br / 2], const typename Config::T *A, const typename Config::T *B)
{
    const uint64_t a = wgmma_descriptor(shared_address(A), 0, 8 * ROW_BYTES);
    const uint64_t b = wgmma_descriptor(shared_address(B), 0, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < Config::HEAD_DIM; d += 16) {
        const int panel = d / PANEL_COLS, bytes = d % PANEL_COLS * 2;
        wgmma_shared<Config::Br, typename Config::T>(
            x, wgmma_descriptor_at(a, panel * Bc * ROW_BYTES + bytes),
            wgmma_descriptor_at(b, panel * Config::Br * ROW_BYTES + bytes), d > 0);
    }
    wgmma_commit();
}

/* x += A·B, or x = A·B: A is in registers, SUMMED columns; B has as many rows of ROWS, and N
 * features along them. */
template <typename T, int SUMMED, int ROWS, int N>
static __device__ __forceinline__ void
start_columns(float (&x)[N / 2], const uint32_t (&A)[SUMMED / 4], const T *B, bool accumulate)
{
    const uint64_t b = wgmma_descriptor(shared_address(B), ROWS * ROW_BYTES, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < SUMMED; n += 16)
        wgmma_registers<N, T>(x, &A[n / 4], wgmma_descriptor_at(b, n * ROW_BYTES),
                              accumulate || n > 0);
    wgmma_commit();
}

/* ---- the consumers ---- */

/* dS of the warp's 16 keys to shared memory. */
template <class Config>
static __device__ __forceinline__ void
store_dS(typename Config::T *dS, const uint32_t (&packed)[Config::Br / 4], int warp_key)
{
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int q = 0; q < Config::Br; q += 16)
        stmatrix_x4(shared_address(&dS[swizzled<Bc>(warp_key + lane % 16, q + lane / 16 * 8)]),
                    &packed[q / 4]);
}

/* dS of the warp's 16 queries and all keys, turned back, as a left factor. */
template <class Config>
static __device__ __forceinline__ void load_dS(uint32_t (&packed)[Bc / 4],
                                               const typename Config::T *dS, int warp_query)
{
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < Bc; k += 16)
        ldmatrix_x4_transposed(
            &packed[k / 4],
            shared_address(
                &dS[swizzled<Bc>(k + lane / 16 * 8 + lane % 8, warp_query + lane / 8 % 2 * 8)]));
}

/* The queries of a tile, and the features, at which a warpgroup's half of dQ begins. */
template <class Config>
static __device__ __forceinline__ int first_query(int warpgroup)
{
    return Config::HEAD_DIM == 64 ? 64 * warpgroup : 0;
}

template <class Config>
static __device__ __forceinline__ int first_feature(int warpgroup)
{
    return Config::HEAD_DIM == 64 ? 0 : 64 * warpgroup;
}

/* A thread's part of a tile of dQ in the workspace: every CONVERT_THREADS-th group of four. */
template <class Config>
static __device__ __forceinline__ float *own_sums(float *dQ, int head, int row0, int seq_q)
{
    const size_t tile = (size_t)head * ceil_div(seq_q, Config::Br) + row0 / Config::Br;
    return dQ + tile * Config::Br * Config::HEAD_DIM + 4 * threadIdx.x;
}

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
            wgmma_wait<1>(); /* and so has dK */
            wgmma_hold(acc_K);
            wgmma_hold(packed);
            if (lane == 0)
                mbarrier_arrive(&shared->empty[stage]);
            wgmma_wait<0>();
            wgmma_hold(acc_Q);
            wgmma_hold(A);
            float *sums = own_sums<Config>(problem.dQ, head, row0, seq_q);
#pragma unroll
            for (int i = 0; i < OWN_Q; i += 4)
                red_add_4(sums + i * CONVERT_THREADS,
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

/* dQ from the floats in the workspace; a block has one tile, a thread what a consumer had. */
template <class Config>
__global__ void backward_wgmma_convert(typename Config::T *dQ, float *sums, float scale, int seq_q,
                                       int head_dim)
{
    const int tiles = ceil_div(seq_q, Config::Br);
    const int head = blockIdx.x / tiles, row0 = blockIdx.x % tiles * Config::Br;
    const int warpgroup = threadIdx.x / WARPGROUP;
    const float *own = own_sums<Config>(sums, head, row0, seq_q);
    float x[OWN_Q];
#pragma unroll
    for (int i = 0; i < OWN_Q; i += 4)
        *(float4 *)&x[i] = *(const float4 *)(own + i * CONVERT_THREADS);
#pragma unroll
    for (int i = 0; i < OWN_Q; i++)
        x[i] *= scale;
    uint32_t packed[OWN_Q / 2];
    pack_rows<typename Config::T>(packed, x);
    const int lane = threadIdx.x % WARP;
    const int first_row = row0 + first_query<Config>(warpgroup) + threadIdx.x / WARP % 4 * 16;
#pragma unroll
    for (int i = 0; i < OWN_Q / 2; i++) {
        const int row = first_row + lane / ROW_LANES + 8 * (i % 2);
        const int col = first_feature<Config>(warpgroup) + 8 * (i / 2) + lane % ROW_LANES * 2;
        if (row < seq_q && col < head_dim)
            *(uint32_t *)&dQ[((size_t)head * seq_q + row) * head_dim + col] = packed[i];
    }
}

static cudaError_t describe(struct backward_problem *problem, const struct attention_backward *call,
                            int Br)
{
    const size_t heads = (size_t)call->batch * (size_t)call->heads;
    const size_t kv_heads = (size_t)call->batch * (size_t)call->kv_heads;
    const size_t seq_q = (size_t)call->seq_q, seq_kv = (size_t)call->seq_kv;
    const size_t cols = (size_t)call->head_dim;
    cudaError_t status = tensor_map_of_halves(&problem->Q, call->Q, heads, seq_q, cols, Br);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&problem->dO, call->dO, heads, seq_q, cols, Br);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&problem->K, call->K, kv_heads, seq_kv, cols, Bc);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&problem->V, call->V, kv_heads, seq_kv, cols, Bc);
    return status;
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
    backward_wgmma_convert<Config><<<tiles, CONVERT_THREADS, 0, call->stream>>>(
        (T *)call->dQ, dQ, call->scale, call->seq_q, call->head_dim);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_backward_wgmma(const struct attention_backward *call)
{
    return LAUNCH(call);
}
