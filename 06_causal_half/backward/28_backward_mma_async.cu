// needs: sm_80
/*
 * Idea: the next tile of queries is on its way while this one is multiplied, a block has twice as
 * many keys, and dQ is added as it lies in registers.
 *
 *     Sᵀ = K·Qᵀ      dPᵀ = V·dOᵀ      Pᵀ = 2^(c · Sᵀ - LSE · log2 e)      dSᵀ = Pᵀ∘(dPᵀ - D)
 *     dV += Pᵀ·dO    dK += dSᵀ·Q      dQ += dS·K                          c = scale · log2 e
 *
 * Q, O, dO, dQ [batch, heads, seq_q, head_dim], K, V, dK, dV [batch, kv_heads, seq_kv, head_dim],
 * elements of type T; LSE [batch, heads, seq_q], float; row-major. HEAD_DIM is head_dim, a multiple
 * of 8, rounded up to 64 or 128, the rest zeros. The workspace has dQ as floats, 16 queries and 64
 * features after the other, each in the order in which a warp holds them, and D = rowsum(dO∘O).
 *
 * A block owns Bc = 128 keys of one key/value head, and all queries of the group's heads pass by
 * that see one of them, Br = 64 at a time. Q, dO, LSE and D have two places each: cp.async fills
 * one while the other is used. Tiles are swizzled as in mma_swizzled.
 *
 * Two blocks of 16 keys share what is read of Q and dO. At HEAD_DIM 64 each of four warps has 32
 * keys. At 128 there are eight: two warps have the same 32 keys, and each makes the scores of half
 * of the queries, and half of the features of dK and dV. As in backward_mma a warp uses Pᵀ and dSᵀ
 * where they lie in registers. dS has to pass through shared memory for dQ; so the other warp finds
 * it there, and P beside it.
 *
 * A warp makes 32 queries and 32 features of dQ, and adds to the workspace what lies in its
 * registers, four floats of each lane at a time; neighbouring lanes add to neighbouring places. A
 * last kernel puts them where they belong.
 *
 * Registers, per thread: dK and dV 128 together; Sᵀ and dPᵀ of a chunk 64, later packed 32; then
 * dQ 32, whose factors come 16 keys at a time.
 *
 * Cost: global: K and V once per block; Q, dO, LSE and D once per block and tile that sees one of
 * its keys, and as often four bytes added for every element of dQ. Shared: 81 KB at HEAD_DIM 64,
 * two blocks on an sm_80; 161 KB at 128, or with half of the keys and queries 81.
 *
 * Source: Dao, FlashAttention-2 (arXiv:2307.08691), algorithm 2; PTX ISA, cp.async.
 */
#include "warp_keys.cuh"

/* Adds the warp's part of a tile's dQ, once dS has all keys. */
template <class Config>
static __device__ __forceinline__ void add_dQ(float *dQ, const struct shared_tiles<Config> *shared,
                                              const struct attention_backward &call,
                                              const struct place &place)
{
    typename Config::part x = {};
    multiply_dQ<Config>(x, shared);
#pragma unroll
    for (int b = 0; b < Config::DQ_BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < Config::DQ_COLS / 2; i += 4)
            red_add_4(place_of_dQ<Config>(dQ, place, b, i, call.seq_q),
                      make_float4(x[b][i], x[b][i + 1], x[b][i + 2], x[b][i + 3]));
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(Config::THREADS, Config::HEAD_DIM == 64 ? 2 : 1)
    backward_mma_async(const float *D, float *dQ, const struct tile_order order,
                       const struct attention_backward call)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<Config> *shared = (struct shared_tiles<Config> *)shared_memory;

    const struct key_tile own = key_tile_of(order, blockIdx.x, Config::Bc);
    const int kv_head = own.kv_head, key0 = own.key0;
    const struct passing passing = passing_queries<Config, CAUSAL>(call, kv_head, key0);
    copy_keys(shared, call, kv_head, key0);
    struct place place = first_place(passing);
    copy_queries(shared, 0, call, D, place);
    cp_async_commit();
    typename Config::sums dK = {}, dV = {};

    for (int tile = 0; tile < passing.tiles; tile++) {
        const int stage = tile % STAGES, next_stage = (tile + 1) % STAGES;
        cp_async_wait<0>();
        /* Every thread's copies into this stage are there; and all warps are done with the other
         * stage, which is filled next, and with dS and P. */
        __syncthreads();
        const struct place next = next_place<Config>(place, passing, call.seq_q);
        if (tile + 1 < passing.tiles)
            copy_queries(shared, next_stage, call, D, next);
        cp_async_commit();

        multiply_tile<Config, CAUSAL>(dK, dV, shared, stage, call, key0, place.row0);
        __syncthreads(); /* all keys and queries of dS and P are there */
        add_dQ<Config>(dQ, shared, call, place);
        add_other_chunk<Config>(dK, dV, shared, stage);
        place = next;
    }
    store_warp_keys<Config>(dK, dV, call, kv_head, key0);
}

template <typename T, int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention_backward *call)
{
    struct device_limits device;
    const cudaError_t status = current_device(&device);
    if (status != cudaSuccess)
        return status;
    typedef config<T, HEAD_DIM, false> Large;
    typedef config<T, 128, true> Small;
    if (HEAD_DIM == 128 && small_async_tiles(HEAD_DIM, &device))
        return launch_gradients<Small>(call, key_order_of(call, Small::Bc),
                                       backward_mma_async<Small, CAUSAL>);
    return launch_gradients<Large>(call, key_order_of(call, Large::Bc),
                                   backward_mma_async<Large, CAUSAL>);
}

extern "C" cudaError_t attention_backward_mma_async(const struct attention_backward *call)
{
    return LAUNCH(call);
}
