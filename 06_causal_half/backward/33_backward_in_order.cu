// needs: sm_90a
/*
 * Idea: backward_one_barrier with its additions to dQ in one order, always the same: two warps of
 * each block take the turns and pass them on, so that no warp that multiplies does.
 *
 *     dQ_i = ((dS_ia·K_a + dS_ib·K_b) + dS_ic·K_c) + ...      over the tiles of keys that i sees,
 *                                                             in the order of their blocks' tickets
 *
 * Q, O, dO, dQ [batch, heads, seq_q, head_dim], K, V, dK, dV [batch, kv_heads, seq_kv, head_dim],
 * elements of type T; LSE [batch, heads, seq_q], float; row-major. The workspace is
 * backward_wgmma's; behind D it has the ticket counter, and for each tile of dQ whose turn it is.
 *
 * Owners, tiles and products are those of backward_one_barrier. Two more warps of the producer's
 * warpgroup keep the turns, each those of the tiles in one stage. When such a warp sees that a
 * tile's turn is the block's, it lets the consumers add: they wait for an mbarrier in shared
 * memory, which is over before they come if the turn came while their products were under way. When
 * all of them have given the tile back, it passes the turn on, and meanwhile the other warp has
 * asked for the next tile's. Its fences order the additions of all consumers: what a thread did
 * before it arrived at an mbarrier comes before what one does that has waited there.
 *
 * Who is the first at a tile is known, too. It stores its part, so nobody writes zeros before.
 *
 * Which order. With a mask a block begins with the queries that see its first key, and the blocks
 * of the keys before come there late. If they were the first to add, all others would begin by
 * waiting. So a head's tiles of keys go in runs of as many as are under way at once, each from its
 * last tile to its first: a block is the first of its run at the tile it begins with, and from then
 * on ahead of the next block. The runs follow one another as the tiles do in backward_one_barrier,
 * because the blocks with the most tiles should not begin last; with a mask, all heads' first runs
 * before any second one.
 *
 * Why it ends. A block draws a ticket when it starts, from which follows which keys it owns, and
 * whoever is before it at a tile of dQ has a smaller ticket. So it waits only for blocks that have
 * started before it. All go through the queries in one order. Of the blocks under way the one with
 * the smallest ticket finds all turns before its own passed on and never waits; so it ends, and the
 * next one has the smallest ticket. This is so with any number of multiprocessors.
 *
 * Cost: as backward_one_barrier, with two or more atomics a tile; and time spent waiting.
 *
 * Source: Dao, flash-attention, "deterministic" backward pass.
 */
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
    uint64_t keys_full, Q_full[STAGES], dO_full[STAGES], empty[STAGES];
    uint64_t own_turn[STAGES]; /* the consumers may add to the tile */
    int first[STAGES];         /* whether nobody has added to it before */
    int ticket;
};

/* What the first block at a tile does in place of adding. */
static __device__ __forceinline__ void store_dQ(float *sums, const float (&dQ)[OWN_Q])
{
#pragma unroll
    for (int i = 0; i < OWN_Q; i += 4)
        *(float4 *)&sums[i * WARP] = make_float4(dQ[i], dQ[i + 1], dQ[i + 2], dQ[i + 3]);
}

template <class Config>
static __device__ __forceinline__ void put_dQ(struct consumer<Config> &c, float *sums,
                                              const float (&dQ)[Config::OWN])
{
    const int stage = c.at.stage;
    mbarrier_wait(&c.shared->own_turn[stage], c.at.phase); /* all that comes before is added */
    if (c.shared->first[stage])
        store_dQ(sums, dQ);
    else
        add_dQ(sums, dQ);
}

/* By a warp: takes the block's turn at each tile of dQ whose queries lie in the stage, and passes
 * it on. */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ void keep_turns(struct shared_tiles<Config> *shared,
                                                  const struct backward_problem &problem,
                                                  const struct key_tile own, int stage)
{
    const struct attention_backward &call = problem.call;
    const int seq_q = call.seq_q, seq_kv = call.seq_kv, group = call.heads / call.kv_heads;
    const int kv_head = own.kv_head, key_tile = own.key0 / Bc, tiles = ceil_div(seq_q, Config::Br);
    const int first_row = backward_first_query(CAUSAL, own.key0, seq_q, seq_kv, Config::Br);
    int *turns = tickets_of(call, problem.D) + 1;
    struct ring_position at = {0, 0};
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int row0 = first_row; row0 < seq_q; row0 += Config::Br, advance<STAGES>(at)) {
            if (at.stage != stage)
                continue;
            int *turn = &turns[head * tiles + row0 / Config::Br];
            const int meet = backward_key_tiles(CAUSAL, row0, seq_q, seq_kv, Config::Br, Bc);
            const int own_turn = place_in_runs(problem.order, key_tile, meet);
            wait_for_turn(turn, own_turn, ask(turn));
            if (threadIdx.x % WARP == 0) {
                shared->first[stage] = own_turn == 0;
                mbarrier_arrive(&shared->own_turn[stage]);
            }
            mbarrier_wait(&shared->empty[stage], at.phase); /* all consumers have added */
            pass_turn_on(turn, own_turn + 1);
        }
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, 1)
    backward_in_order(const __grid_constant__ struct backward_problem problem)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<Config> *shared = (struct shared_tiles<Config> *)shared_memory;
    /* the shuffle tells the compiler that all lanes have the same value */
    const int warpgroup = __shfl_sync(FULL_MASK, threadIdx.x / WARPGROUP, 0);

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++)
            mbarrier_init(&shared->own_turn[stage], 1);
        initialise_barriers(shared);
    }
    /* Its barrier also says that the barriers exist before any thread waits on them. */
    const int ticket = draw_ticket(&shared->ticket, tickets_of(problem.call, problem.D));
    const struct key_tile own = key_tile_in_runs(problem.order, CAUSAL, ticket, Bc);

    /* The launch's registers, 168 a thread, move from the producer to the consumers. */
    if (warpgroup == CONSUMERS) {
        registers_decrease<24>();
        const int warp = threadIdx.x / WARP - CONSUMERS * WARPGROUP / WARP;
        if (warp == 0)
            produce<Config, CAUSAL>(shared, problem, own);
        else if (warp <= STAGES)
            keep_turns<Config, CAUSAL>(shared, problem, own, warp - 1);
    } else {
        registers_increase<240>();
        consume<Config, CAUSAL>(shared, problem, own, warpgroup);
    }
}

template <typename T, int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention_backward *call)
{
    typedef config<T, HEAD_DIM> Config;
    const size_t tiles = query_tiles(call, Config::Br);
    /* no ticket is drawn, and it is the first blocks' turns */
    const cudaError_t status = cudaMemsetAsync(tickets_of(*call, D_of<Config>(call)), 0,
                                               (tiles + 1) * sizeof(int), call->stream);
    const bool unseen = CAUSAL && call->seq_q > call->seq_kv; /* queries that no block meets */
    return status == cudaSuccess
               ? launch_gradients<Config>(call, in_order_of(call, Bc),
                                          backward_in_order<Config, CAUSAL>, unseen)
               : status;
}

extern "C" cudaError_t attention_backward_in_order(const struct attention_backward *call)
{
    return LAUNCH(call);
}
