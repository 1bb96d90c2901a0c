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
 * tile's dQ is made by stands in one_barrier.cuh.
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
    typename Config::T dS[2][Bc * Config::Br]; /* transposed */
    float LSE[STAGES][Config::Br], D[STAGES][Config::Br];
    uint64_t keys_full, Q_full[STAGES], dO_full[STAGES], empty[STAGES];
};

/* Adds what a tile of queries gives to dK and dV, and adds its part of dQ to `part`. Where dPᵀ and
 * dQ have as many floats, at HEAD_DIM 128, both are made in `kept`, from tile to tile the same
 * registers: so Sᵀ of the next tile, which has others, need not wait until dQ is on its way. */
template <class Config, bool CAUSAL, bool MASKED>
static __device__ __forceinline__ void multiply_and_add(struct consumer<Config> &c,
                                                        float (&kept)[Config::Br / 2], float *part,
                                                        int place, int row0, int seq_q, int seq_kv)
{
    const int Br = Config::Br;
    const bool KEPT = Br / 2 == OWN_Q;
    uint32_t packed[Br / 4];
    float own_dP[Br / 2], own_dQ[OWN_Q], *sums = own_floats(part);
    float(&dP)[Br / 2] = KEPT ? kept : own_dP;
    float(&dQ)[OWN_Q] = KEPT ? (float(&)[OWN_Q])kept : own_dQ;
    make_dQ<Config, CAUSAL, MASKED>(c, dQ, dP, packed, place, row0, seq_q, seq_kv);
    add_dQ(sums, dQ); /* while dK's product is under way */
    finish_tile(c, packed);
}

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

    float kept[Config::Br / 2];
#pragma unroll
    for (int i = 0; i < Config::Br / 2; i++)
        kept[i] = 0.0f;
    int place = 0;
    mbarrier_wait(&shared->keys_full, 0);
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int row0 = first_row; row0 < seq_q; row0 += Config::Br) {
            float *part = part_of_dQ<Config>(problem.dQ, head, row0 + c.warp_query,
                                             first_feature<Config>(warpgroup), seq_q);
            if (needs_mask<CAUSAL>(key0, row0, seq_q, seq_kv))
                multiply_and_add<Config, CAUSAL, true>(c, kept, part, place, row0, seq_q, seq_kv);
            else
                multiply_and_add<Config, CAUSAL, false>(c, kept, part, place, row0, seq_q, seq_kv);
            place ^= 1;
        }

    store_keys_through(c, shared, call, own);
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, 1)
    backward_one_barrier(const __grid_constant__ struct backward_problem problem)
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
    return launch_gradients<Config>(call, key_order_of(call, Bc),
                                    backward_one_barrier<Config, CAUSAL>);
}

extern "C" cudaError_t attention_backward_one_barrier(const struct attention_backward *call)
{
    return LAUNCH(call);
}
