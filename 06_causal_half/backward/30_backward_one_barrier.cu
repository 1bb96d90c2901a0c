// needs: sm_90a
/*
 * Idea: shared memory is what limits bulk_adds, so use it less. wgmma takes dS for dQ from where it
 * lies, dQ goes to memory straight from registers, and dS has two places, so one barrier a tile is
 * enough.
 *
 *     Sᵀ = K·Qᵀ      dPᵀ = V·dOᵀ      Pᵀ = 2^(c · Sᵀ - LSE · log2 e)      dSᵀ = Pᵀ∘(dPᵀ - D)
 *     dV += Pᵀ·dO    dK += dSᵀ·Q      dQ += dS·K                          c = scale · log2 e
 *
 * Q, O, dO, dQ [batch, heads, seq_q, head_dim], K, V, dK, dV [batch, kv_heads, seq_kv, head_dim],
 * elements of type T; LSE [batch, heads, seq_q], float; row-major. The workspace is
 * backward_wgmma's.
 *
 * Owners and the producer are those of backward_wgmma. dS lies in shared memory with keys as rows.
 * As the left factor of dQ it is wanted with queries as rows: the instruction transposes it while
 * it reads. So no registers hold dS for dQ, and nothing stands between the barrier and the product.
 * Whoever stores dS of a tile has waited for its dQ of the tile before; a warp that is ahead stores
 * into the other place, and the barrier of that tile stops it until all have come that far. What a
 * consumer does stands in one_barrier.cuh.
 *
 * dK is under way while dQ is added, four of a thread's 32 floats by one red.v4. At the end a warp
 * stores dV and dK through its own rows of V's place, which nobody reads any more, 16 bytes a lane.
 *
 * Cost: as backward_wgmma, but dK and dV are stored eight elements at a time. Shared: 163 KB at
 * HEAD_DIM 64, 162 KB at 128.
 *
 * Source: PTX ISA, wgmma.mma_async, transposed operands; Shah et al., FlashAttention-3
 * (arXiv:2407.08608).
 */
#include "one_barrier.cuh"

/* Everything lies in panels of 64 columns, rows of 128 bytes, swizzled as the copy engine does. */
template <class Config>
struct __align__(1024) shared_tiles
{
    typename Config::T K[Bc * Config::HEAD_DIM], V[Bc * Config::HEAD_DIM];
    typename Config::T Q[STAGES][Config::Br * Config::HEAD_DIM];
    typename Config::T dO[STAGES][Config::Br * Config::HEAD_DIM];
    typename Config::T dS[STAGES][Bc * Config::Br]; /* transposed */
    float LSE[STAGES][Config::Br], D[STAGES][Config::Br];
    uint64_t keys_full, Q_full[STAGES], dO_full[STAGES], empty[STAGES];
};

template <class Config>
static __device__ __forceinline__ void put_dQ(struct consumer<Config> &, float *sums,
                                              const float (&dQ)[Config::OWN])
{
    add_dQ(sums, dQ);
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, 1)
    backward_one_barrier(const __grid_constant__ struct backward_problem problem)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<Config> *shared = (struct shared_tiles<Config> *)shared_memory;
    /* the shuffle tells the compiler that all lanes have the same value */
    const int warpgroup = __shfl_sync(FULL_MASK, threadIdx.x / WARPGROUP, 0);
    const struct key_tile own = key_tile_of(problem.order, blockIdx.x, Bc);

    if (threadIdx.x == 0)
        initialise_barriers(shared);
    __syncthreads(); /* the barriers exist before any thread waits on them */

    /* The launch's registers, 168 a thread, move from the producer to the consumers. */
    if (warpgroup == CONSUMERS) {
        registers_decrease<24>();
        if (threadIdx.x / WARP == CONSUMERS * WARPGROUP / WARP)
            produce<Config, CAUSAL>(shared, problem, own);
    } else {
        registers_increase<240>();
        consume<Config, CAUSAL>(shared, problem, own, warpgroup);
    }
}

template <typename T, int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention_backward *call)
{
    typedef config<T, HEAD_DIM> Config;
    return launch_gradients<Config>(call, key_order_of(call, Bc),
                                    backward_one_barrier<Config, CAUSAL>);
}

extern "C" cudaError_t attention_backward_one_barrier(const struct attention_backward *call)
{
    return LAUNCH(call);
}
