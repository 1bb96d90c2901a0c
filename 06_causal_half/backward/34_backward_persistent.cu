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
#include "one_barrier.cuh"
#include "turns.cuh"

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

template <class Config>
static __device__ __forceinline__ void put_dQ(struct consumer<Config> &, float *sums,
                                              const float (&dQ)[OWN_Q])
{
    add_dQ(sums, dQ);
}

/* The tiles of queries that meet a block's keys: from the one at `begin` to the last, and on from
 * the one at `first`. */
struct round {
    int tiles, first, begin;
};

template <class Config, bool CAUSAL>
static __device__ __forceinline__ struct round round_of(const struct attention_backward &call,
                                                        const struct key_tile own)
{
    const int Br = Config::Br, seq_q = call.seq_q;
    struct round round;
    round.first = backward_first_query(CAUSAL, own.key0, seq_q, call.seq_kv, Br);
    round.tiles = ceil_div(seq_q - round.first, Br); /* the last query sees all keys */
    round.begin = CAUSAL ? round.first : own.key0 / Bc % round.tiles * Br;
    return round;
}

template <class Config>
static __device__ __forceinline__ int next_row(const struct round round, int row0, int seq_q)
{
    return row0 + Config::Br < seq_q ? row0 + Config::Br : round.first;
}

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

/* Whether a tile's queries, 64 from row0 on, see none of the second warpgroup's keys. */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ bool sees_half(int key0, int row0, int seq_q, int seq_kv)
{
    return CAUSAL && Config::HEAD_DIM == 128 &&
           visible_keys<CAUSAL>(row0 + Config::Br - 1, seq_q, seq_kv) <= key0 + WARPGROUP_KEYS;
}

/* The second warpgroup's share of such a tile: its half of dQ. Each warp clears its rows of dS. */
template <class Config>
static __device__ __forceinline__ void skip_and_add(struct consumer<Config> &c,
                                                    float (&kept)[Config::Br / 2], float *part)
{
    float(&dQ)[OWN_Q] = (float(&)[OWN_Q])kept;
    typename Config::T *dS = c.shared->dS[c.at.stage];
    const int eight = threadIdx.x / WARP * 16 * PANEL + threadIdx.x % WARP * 8;
#pragma unroll
    for (int i = 0; i < 16 * PANEL; i += 8 * WARP)
        *(uint4 *)&dS[eight + i] = make_uint4(0, 0, 0, 0);
    async_proxy_fence();
    named_barrier_sync(1, WARPGROUP * CONSUMERS); /* dS is complete, and visible to wgmma */
    start_dQ(dQ, dS, c.K_columns);
    wgmma_wait<0>();
    wgmma_hold(dQ);
    put_dQ(c, own_floats(part), dQ);
    mbarrier_arrive(&c.shared->empty[c.at.stage]);
    advance<STAGES>(c.at);
}

template <class Config, bool CAUSAL, int WARPGROUP_NUMBER>
static __device__ __forceinline__ void consume_all(struct shared_tiles<Config> *shared,
                                                   const struct backward_problem &problem)
{
    const struct attention_backward &call = problem.call;
    const int warpgroup = WARPGROUP_NUMBER, seq_q = call.seq_q, seq_kv = call.seq_kv;
    const int group = call.heads / call.kv_heads;
    struct consumer<Config> c;
    begin_keys(c, shared, problem.scale_log2, warpgroup, 0);
    float kept[Config::Br / 2];
    begin_kept<Config>(kept);
    for (uint32_t phase = 0;; phase ^= 1) {
        mbarrier_wait(&shared->keys_full, phase);
        const struct key_tile own = shared->own;
        if (own.kv_head < 0)
            return;
        const struct round round = round_of<Config, CAUSAL>(call, own);
        begin_sums(c, own.key0);
        for (int head = own.kv_head * group; head < (own.kv_head + 1) * group; head++) {
            int left = round.tiles, row0 = round.begin;
            if (warpgroup == 1 && sees_half<Config, CAUSAL>(own.key0, row0, seq_q, seq_kv)) {
                skip_and_add(c, kept,
                             part_of_dQ<Config>(problem.dQ, head, row0 + c.warp_query,
                                                first_feature<Config>(warpgroup), seq_q));
                left--;
                row0 += Config::Br;
            }
            for (; left > 0; left--, row0 = next_row<Config>(round, row0, seq_q))
                multiply_queries<Config, CAUSAL>(c, kept, problem, warpgroup, head, row0);
        }
        mbarrier_arrive(&shared->keys_empty);
        named_barrier_sync(2, WARPGROUP * CONSUMERS); /* nobody reads dS any more */
        /* at HEAD_DIM 128 through both places, which lie side by side */
        store_sums(c, shared->dS[0], call, own.kv_head);
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
