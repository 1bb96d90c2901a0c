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
 * With a mask, at HEAD_DIM 128, the first tile of queries often sees none of the second
 * warpgroup's 64 keys. That warpgroup makes only its half of dQ then, and leaves the tensor cores
 * to the first. Each warpgroup has code of its own, in which the addresses of its rows are
 * constants: with one for both, registers do not suffice.
 *
 * At HEAD_DIM 128 long sequences have tiles of 80 queries, not of 64, so a query costs a fifth less
 * of barriers and of reads of K and V from shared memory. More have no room in registers. A
 * warpgroup multiplies 64 rows, which do not divide 80: so dQ is made transposed, with 64 features
 * as a warpgroup's rows, and lies so in the workspace.
 *
 * Cost: as backward_one_barrier, and an atomic a tile of keys. Shared: as there, 48 KB more where
 * tiles have 80 queries.
 *
 * Source: Shah et al., FlashAttention-3 (arXiv:2407.08608), persistent blocks in the forward pass;
 * tiles of 80 queries in the backward pass of github.com/Dao-AILab/flash-attention, hopper.
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
    typename Config::T dS[STAGES][Bc * Config::dS_COLUMNS]; /* transposed */
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

/* ---- dQ of tiles of 80 queries ---- */

/* dQ from the floats in the workspace, of parts of dQᵀ. A block has 64 features of a tile, a warp a
 * part, in which a lane has two queries of two features in four floats. */
template <typename T, int Br>
__global__ void backward_put_turned(T *dQ, const float *sums, float scale, int panels, int seq_q,
                                    int head_dim)
{
    const int tile = blockIdx.x / panels, down = ceil_div(seq_q, Br);
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int g = lane / ROW_LANES, t = lane % ROW_LANES;
    const float *own = own_floats(sums + ((size_t)blockIdx.x * 4 + warp) * PART_ROWS * Br);
    __shared__ __align__(16) uint16_t rows[4][Br][PART_ROWS + PUT_PAD];
#pragma unroll
    for (int i = 0; i < Br / 8; i++) {
        const float4 x = *(const float4 *)&own[4 * i * WARP];
        const uint32_t upper = pack_pair<T>(x.x * scale, x.y * scale);
        const uint32_t lower = pack_pair<T>(x.z * scale, x.w * scale);
        uint16_t(*pair)[PART_ROWS + PUT_PAD] = &rows[warp][8 * i + 2 * t];
        pair[0][g] = (uint16_t)upper;
        pair[1][g] = (uint16_t)(upper >> 16);
        pair[0][g + 8] = (uint16_t)lower;
        pair[1][g + 8] = (uint16_t)(lower >> 16);
    }
    store_part<Br, PART_ROWS>(dQ + (size_t)(tile / down) * seq_q * head_dim, rows[warp],
                              tile % down * Br, seq_q,
                              blockIdx.x % panels * PANEL + warp * PART_ROWS, head_dim);
}

/* In place of finish_gradients(). */
template <class Config>
static cudaError_t finish_turned(const struct attention_backward *call)
{
    typedef typename Config::T T;
    const int panels = Config::HEAD_DIM / PANEL;
    const int tiles = call->batch * call->heads * ceil_div(call->seq_q, Config::Br);
    backward_put_turned<T, Config::Br><<<tiles * panels, PUT_THREADS, 0, call->stream>>>(
        (T *)call->dQ, (const float *)call->workspace, call->scale, panels, call->seq_q,
        call->head_dim);
    return cudaGetLastError();
}

/* ---- launches ---- */

template <class Config, bool CAUSAL>
static cudaError_t launch_as(const struct attention_backward *call,
                             cudaError_t (*finish)(const struct attention_backward *))
{
    const struct tile_order order = key_order_of(call, Bc);
    int *const counter = tickets_of(*call, D_of<Config>(call));
    struct device_limits device;
    cudaError_t status = current_device(&device);
    if (status == cudaSuccess)
        status = cudaMemsetAsync(counter, 0, sizeof *counter, call->stream);
    return status == cudaSuccess
               ? launch_gradients<Config>(call, order, backward_persistent<Config, CAUSAL>, true,
                                          resident_blocks(order.tiles, &device), finish)
               : status;
}

template <typename T, int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention_backward *call)
{
    typedef config<T, HEAD_DIM> Config;
    if constexpr (HEAD_DIM == 128) {
        typedef config<T, HEAD_DIM, BACKWARD_TALL_QUERIES> Tall;
        if (backward_has_tall_tiles(call))
            return launch_as<Tall, CAUSAL>(call, finish_turned<Tall>);
    }
    return launch_as<Config, CAUSAL>(call, finish_gradients<Config>);
}

extern "C" cudaError_t attention_backward_persistent(const struct attention_backward *call)
{
    return LAUNCH(call);
}
