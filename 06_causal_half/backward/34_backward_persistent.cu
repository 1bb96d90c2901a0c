// needs: sm_90a
/*
 * Idea: blocks stay, one per multiprocessor, and go from tile of keys to tile of keys without a
 * pause.
 *
 * Q, O, dO, dQ [batch, heads, seq_q, head_dim], K, V, dK, dV [batch, kv_heads, seq_kv, head_dim],
 * elements of type T; LSE [batch, heads, seq_q], float; row-major. The workspace is
 * backward_wgmma's; behind D it has the counter of tiles.
 *
 * What is done with a tile of queries is what backward_one_barrier does. There a block begins with
 * barriers to make, and with keys and queries to wait for, and ends with sums to store, and as long
 * as that takes its multiprocessor multiplies nothing. Here the consumers give K and V back before
 * they store their sums, so the next keys and their first queries arrive meanwhile. The sums leave
 * through dS, which nobody reads between two tiles of keys.
 *
 * The producer draws the next tile when it has asked for the last queries of this one: so early
 * that nobody waits for the number, so late that those who are ahead draw more. Tiles come in
 * backward_one_barrier's order, those that most queries see first.
 *
 * Blocks that begin together stay together, and without a mask all of a head would add to the same
 * queries' dQ at the same time. So each block begins with queries of its own, and goes round.
 *
 * With a mask, at HEAD_DIM 128, the first tile of 64 queries often sees none of the second
 * warpgroup's 64 keys. That warpgroup makes only its half of dQ then, and leaves the tensor cores
 * to the first. Each warpgroup has code of its own, in which the addresses of its rows are
 * constants: with one for both, registers do not suffice.
 *
 * Cost: as backward_one_barrier, and an atomic a tile of keys. Shared: as there.
 *
 * Source: Shah et al., FlashAttention-3 (arXiv:2407.08608), persistent blocks in the forward pass.
 */
#include "device/device.h"
#include "persistent_keys.cuh"

/* Everything lies in panels of 64 columns, rows of 128 bytes, swizzled as the copy engine does. */
template <class Config>
struct __align__(1024) shared_tiles
{
    typename Config::T K[Bc * Config::HEAD_DIM], V[Bc * Config::HEAD_DIM];
    typename Config::T Q[STAGES][Config::Br * Config::HEAD_DIM];
    typename Config::T dO[STAGES][Config::Br * Config::HEAD_DIM];
    typename Config::T dS[STAGES][Bc * Config::Br]; /* transposed */
    float LSE[STAGES][Config::Br], D[STAGES][Config::Br];
    struct key_tile own; /* whose K and V these are; a negative head: no tile is left */
    uint64_t keys_full, keys_empty, Q_full[STAGES], dO_full[STAGES], empty[STAGES];
};

/* Brings the keys and queries of all tiles that the block takes, by a warp. */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ void produce_all(struct shared_tiles<Config> *shared,
                                                   const struct backward_problem &problem)
{
    const struct attention_backward &call = problem.call;
    const int seq_q = call.seq_q, group = call.heads / call.kv_heads;
    int *const counter = tickets_of(call, problem.D);
    struct ring_position at = {0, 0};
    uint32_t phase = 1; /* on a new barrier the phase before the first counts as over */
    for (int number = blockIdx.x; number < problem.order.tiles; phase ^= 1) {
        const struct key_tile own = key_tile_of(problem.order, number, Bc);
        const struct round round = round_of<Config, CAUSAL>(call, own);
        mbarrier_wait(&shared->keys_empty, phase);
        if (threadIdx.x % WARP == 0) {
            shared->own = own;
            load_keys(shared, problem, own);
        }
        for (int head = own.kv_head * group; head < (own.kv_head + 1) * group; head++)
            for (int left = round.tiles, row0 = round.begin; left > 0;
                 left--, row0 = next_row<Config>(round, row0, seq_q))
                produce_queries(shared, problem, at, head, row0);
        if (threadIdx.x % WARP == 0)
            number = (int)gridDim.x + atomicAdd(counter, 1);
        number = __shfl_sync(FULL_MASK, number, 0);
    }
    mbarrier_wait(&shared->keys_empty, phase);
    if (threadIdx.x % WARP == 0) {
        shared->own.kv_head = -1;
        /* no bytes are expected: this arrival alone completes the phase */
        mbarrier_arrive(&shared->keys_full);
    }
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, 1)
    backward_persistent(const __grid_constant__ struct backward_problem problem)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<Config> *shared = (struct shared_tiles<Config> *)shared_memory;
    /* the shuffle tells the compiler that all lanes have the same value */
    const int warpgroup = __shfl_sync(FULL_MASK, threadIdx.x / WARPGROUP, 0);

    if (threadIdx.x == 0) {
        mbarrier_init(&shared->keys_empty, WARPGROUP * CONSUMERS);
        initialise_barriers(shared);
    }
    __syncthreads(); /* the barriers exist before any thread waits on them */

    /* The launch's registers, 168 a thread, move from the producer to the consumers. */
    if (warpgroup == CONSUMERS) {
        registers_decrease<24>();
        if (threadIdx.x / WARP == CONSUMERS * WARPGROUP / WARP)
            produce_all<Config, CAUSAL>(shared, problem);
    } else {
        registers_increase<240>();
        if (warpgroup == 0)
            consume_all<Config, CAUSAL, 0>(shared, problem);
        else
            consume_all<Config, CAUSAL, 1>(shared, problem);
    }
}

template <typename T, int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention_backward *call)
{
    typedef config<T, HEAD_DIM> Config;
    const struct tile_order order = key_order_of(call, Bc);
    int *const counter = tickets_of(*call, D_of<Config>(call));
    struct device_limits device;
    cudaError_t status = current_device(&device);
    if (status == cudaSuccess)
        status = cudaMemsetAsync(counter, 0, sizeof *counter, call->stream);
    return status == cudaSuccess
               ? launch_gradients<Config>(call, order, backward_persistent<Config, CAUSAL>, true,
                                          resident_blocks(order.tiles, &device))
               : status;
}

extern "C" cudaError_t attention_backward_persistent(const struct attention_backward *call)
{
    return LAUNCH(call);
}
