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
 * of 8, rounded up to 64 or 128, the rest zeros. The workspace has dQ as floats, as in
 * backward_mma_async, and D.
 *
 * A block owns Bc = 128 keys of one key/value head, each of two warpgroups 64 of them. Tiles of Br
 * queries pass by, those of Q and dO in a ring of two places. Per tile a warpgroup makes its part
 * of Sᵀ and dPᵀ, and adds to its dV and dK with Pᵀ and dSᵀ as left factors in registers. For dQ all
 * 128 keys are wanted: dS goes through shared memory, and each warpgroup takes half of the tile's
 * dQ, its dS from there to registers by ldmatrix, transposed. dPᵀ is under way while Pᵀ is made,
 * dV's product while dS is stored, and dK's while it is loaded.
 *
 * dQ goes to the workspace as in backward_mma_async, four of a thread's 32 floats by one red.v4.
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
    const struct attention_backward &call = problem.call;
    const int seq_q = call.seq_q, seq_kv = call.seq_kv, group = call.heads / call.kv_heads;
    const struct key_tile own = key_tile_of(problem.order, blockIdx.x, Bc);
    const int kv_head = own.kv_head, key0 = own.key0;
    const int first_row = backward_first_query(CAUSAL, key0, seq_q, seq_kv, Config::Br);
    struct consumer<Config> c;
    begin_keys(c, shared, problem.scale_log2, warpgroup, key0);

    mbarrier_wait(&shared->keys_full, 0);
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int row0 = first_row; row0 < seq_q; row0 += Config::Br) {
            float dQ[OWN_Q];
            multiply_tile<Config, CAUSAL>(c, dQ, row0, seq_q, seq_kv);
            add_dQ(own_floats(part_of_dQ<Config>(problem.dQ, head, row0 + c.warp_query,
                                                 first_feature<Config>(warpgroup), seq_q)),
                   dQ);
        }
    store_keys<typename Config::T>(c.dK, c.dV, call, kv_head, key0 + threadIdx.x / WARP * 16);
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, 1)
    backward_wgmma(const __grid_constant__ struct backward_problem problem)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<Config> *shared = (struct shared_tiles<Config> *)shared_memory;
    /* the shuffle tells the compiler that all lanes have the same value */
    const int warpgroup = __shfl_sync(FULL_MASK, threadIdx.x / WARPGROUP, 0);

    if (threadIdx.x == 0)
        initialise_barriers(shared);
    __syncthreads(); /* the barriers exist before any thread waits on them */

    /* The launch's registers, 168 a thread, move from the producer to the consumers. */
    if (warpgroup == CONSUMERS) {
        registers_decrease<24>();
        if (threadIdx.x / WARP == CONSUMERS * WARPGROUP / WARP)
            produce<Config, CAUSAL>(shared, problem, key_tile_of(problem.order, blockIdx.x, Bc));
    } else {
        registers_increase<240>();
        consume<Config, CAUSAL>(shared, problem, warpgroup);
    }
}

template <typename T, int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention_backward *call)
{
    typedef config<T, HEAD_DIM> Config;
    return launch_gradients<Config>(call, key_order_of(call, Bc), backward_wgmma<Config, CAUSAL>);
}

extern "C" cudaError_t attention_backward_wgmma(const struct attention_backward *call)
{
    return LAUNCH(call);
}
