// needs: sm_80
/*
 * Idea: blocks add to a tile of dQ in the order of their keys, each at its turn. A sum of floats
 * depends on the order, so now every run leaves the same bits.
 *
 *     dQ_i = ((dS_i0·K_0 + dS_i1·K_1) + dS_i2·K_2) + ...        over the tiles of keys 0, 1, 2, ...
 *
 * Q, O, dO, dQ [batch, heads, seq_q, head_dim], K, V, dK, dV [batch, kv_heads, seq_kv, head_dim],
 * elements of type T; LSE [batch, heads, seq_q], float; row-major. The workspace is
 * backward_mma_async's; behind D it has the ticket counter, and for each warp's part of each tile
 * of dQ whose turn it is.
 *
 * Owners, tiles and products are those of backward_mma_async. What a query sees ends with a key, so
 * the tiles of keys that meet a tile of queries are 0, 1, 2, ... without a gap: tile j of keys has
 * turn j. A part is made by warps of one number in all blocks, so these pass a turn of their own
 * on, and the block does not meet. Nobody else adds meanwhile: a lane loads, adds and stores, 16
 * bytes at a time.
 *
 * A block may only wait for blocks that run already. It draws a ticket when it starts, instead of
 * taking its number, and waits for tiles of keys of smaller tickets alone. As all blocks go through
 * the queries in one order, the block with the smallest ticket never waits. Neighbouring tickets
 * are tiles of different heads, which have nothing to wait for from one another.
 *
 * Cost: as backward_mma_async, with dQ loaded and stored at each visit; and time spent waiting.
 *
 * Source: Dao, flash-attention, "deterministic" backward pass.
 */
#include "turns.cuh"
#include "warp_keys.cuh"

/* The turn of the warp's part of a tile of dQ. Each stands for 4 KB of dQ, so an int can count
 * those of 8 TB. */
template <class Config>
static __device__ __forceinline__ int turn_of(const struct place &place, int seq_q)
{
    const int tile = place.head * ceil_div(seq_q, Config::Br) + place.row0 / Config::Br;
    return tile * Config::WARPS + threadIdx.x / WARP;
}

/* Adds the warp's part to dQ. All loads come before the first store, behind which the compiler may
 * not move them: they are under way together. */
template <class Config>
static __device__ __forceinline__ void add_part(typename Config::part &x, float *dQ,
                                                const struct place &place, int seq_q)
{
#pragma unroll
    for (int b = 0; b < Config::DQ_BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < Config::DQ_COLS / 2; i += 4) {
            const float4 sum = *(const float4 *)place_of_dQ<Config>(dQ, place, b, i, seq_q);
            x[b][i] += sum.x;
            x[b][i + 1] += sum.y;
            x[b][i + 2] += sum.z;
            x[b][i + 3] += sum.w;
        }
#pragma unroll
    for (int b = 0; b < Config::DQ_BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < Config::DQ_COLS / 2; i += 4)
            *(float4 *)place_of_dQ<Config>(dQ, place, b, i, seq_q) =
                make_float4(x[b][i], x[b][i + 1], x[b][i + 2], x[b][i + 3]);
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(Config::THREADS, Config::HEAD_DIM == 64 ? 2 : 1)
    backward_in_turn(const float *D, float *dQ, const struct tile_order order,
                     const struct attention_backward call)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<Config> *shared = (struct shared_tiles<Config> *)shared_memory;
    int *tickets = tickets_of(call, D), *turns = tickets + 1;

    /* dS has no other use yet */
    const int ticket = draw_ticket((int *)shared->weights, tickets);
    const struct key_tile own = key_tile_of(order, ticket, Config::Bc);
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
        int *turn = &turns[turn_of<Config>(place, call.seq_q)];
        const int now = ask(turn); /* the answer comes while dQ is made */
        typename Config::part x = {};
        multiply_dQ<Config>(x, shared);
        wait_for_turn(turn, key0 / Config::Bc, now);
        add_part<Config>(x, dQ, place, call.seq_q);
        add_other_chunk<Config>(dK, dV, shared, stage);
        pass_turn_on(turn, key0 / Config::Bc + 1);
        place = next;
    }
    store_warp_keys<Config>(dK, dV, call, kv_head, key0);
}

template <class Config, bool CAUSAL>
static cudaError_t launch_turns(const struct attention_backward *call)
{
    const size_t turns = query_tiles(call, Config::Br) * Config::WARPS;
    /* no ticket is drawn, and it is the first keys' turns */
    const cudaError_t status = cudaMemsetAsync(tickets_of(*call, D_of<Config>(call)), 0,
                                               (turns + 1) * sizeof(int), call->stream);
    struct tile_order order = key_order_of(call, Config::Bc);
    order.group = order.heads;
    return status == cudaSuccess
               ? launch_gradients<Config>(call, order, backward_in_turn<Config, CAUSAL>)
               : status;
}

template <typename T, int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention_backward *call)
{
    struct device_limits device;
    const cudaError_t status = current_device(&device);
    if (status != cudaSuccess)
        return status;
    if (HEAD_DIM == 128 && small_async_tiles(HEAD_DIM, &device))
        return launch_turns<config<T, 128, true>, CAUSAL>(call);
    return launch_turns<config<T, HEAD_DIM, false>, CAUSAL>(call);
}

extern "C" cudaError_t attention_backward_in_turn(const struct attention_backward *call)
{
    return LAUNCH(call);
}
