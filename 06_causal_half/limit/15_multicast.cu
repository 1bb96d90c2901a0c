// needs: sm_90a
/*
 * Idea: pairs of blocks share keys and values: each loads one half of a block of keys, and the copy
 * engine delivers it to both.
 *
 *     for each block of Bc keys, last to first:
 *         start S_next = Q·K_nextᵀ             start O += P·V
 *         softmax of S_next as soon as that is there, while O is under way
 *         O = O · 2^(c · m - c · m_new)        P = P_next                        c = scale · log2 e
 *     at the end:  O = O / l                   LSE   = (c · m + log2 l) · ln 2
 *     where K_next may be the next tile's first: then O is stored and starts from 0
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], elements of type
 * T; LSE [batch, heads, seq_q], float; row-major. In pairs head_dim is a multiple of 8 above 64,
 * rounded up to HEAD_DIM, the rest zeros.
 *
 * At 700 TFLOP/s, tiles of 128 queries read 5.5 TB/s of keys and values from the L2 cache. Two
 * blocks of a cluster compute neighbouring tiles of a head, and with multicast loads the pair reads
 * its keys once. That is hardly faster by itself, but it saves power, which limits sustained runs.
 *
 * A load fills a place in both blocks, so it must be empty in both: the two producers agree before
 * each load. They make the same requests in the same order. Tiles of full attention are equally
 * long, so they are dealt out in advance again.
 *
 * Elsewhere this rung is across_tiles: with a causal mask, few keys or a head_dim up to 64 pairs
 * were slower or won too little, and of an odd number of tiles one would have no partner.
 *
 * Cost: as across_tiles': as many loads, but half of the bytes of K and V.
 *
 * Source: Shah et al., FlashAttention-3 (arXiv:2407.08608), its clusters of two for full attention;
 * Bikshandi and Shah, A Case Study in CUDA Kernel Fusion (arXiv:2312.11918), multicast.
 */
#include "06_causal_half/06_step.h"
#include "device/device.h"
#include "load_share.cuh"
#include "06_causal_half/hopper/ping_pong.cuh"
#include "persistent_tile.cuh"

/* Where pairs pay there is no causal mask; the last block of keys may still need one. */
static const int HEAD_DIM = 128;
static const bool CAUSAL = false;

/*
 * Every place has two barriers. `full` completes when its bytes have arrived: consumers wait for
 * it. `empty` completes when the last consumer warp is done reading: the producer waits for it
 * before it fills the place again. A place of K or V has a third: `agreed` completes when both
 * producers of the pair have found theirs empty. Its phase n comes before that of `full`. (Aligned
 * as TMA wants its boxes; so is what lies behind it.)
 */
template <class Config>
struct __align__(1024) shared_tiles
{
    typename Config::T Q[2][Config::Br * Config::HEAD_DIM];
    typename Config::T K[Config::STAGES][Bc * Config::HEAD_DIM];
    typename Config::T V[Config::STAGES][Bc * Config::HEAD_DIM];
    uint64_t Q_full[2], K_full[Config::STAGES], V_full[Config::STAGES];
    uint64_t Q_empty[2], K_empty[Config::STAGES], V_empty[Config::STAGES];
    uint64_t K_agreed[Config::STAGES], V_agreed[Config::STAGES];
    struct hopper_tile tile[2]; /* whose queries Q holds; 0 blocks: there are no more */
};

/* By one thread. */
template <class Config>
static __device__ __forceinline__ void initialise_barriers(struct shared_tiles<Config> *shared)
{
    for (int place = 0; place < 2; place++) {
        mbarrier_init(&shared->Q_full[place], 1);
        mbarrier_init(&shared->Q_empty[place], 4 * Config::WARPGROUPS);
    }
    for (int stage = 0; stage < Config::STAGES; stage++) {
        mbarrier_init(&shared->K_full[stage], 1);
        mbarrier_init(&shared->V_full[stage], 1);
        mbarrier_init(&shared->K_empty[stage], 4 * Config::WARPGROUPS);
        mbarrier_init(&shared->V_empty[stage], 4 * Config::WARPGROUPS);
        mbarrier_init(&shared->K_agreed[stage], PAIR);
        mbarrier_init(&shared->V_agreed[stage], PAIR);
    }
    mbarrier_init_fence();
}

template <class Config>
static __device__ __forceinline__ void
produce_values(struct shared_tiles<Config> *shared, struct ring_position &V_at,
               const struct hopper_problem &problem, int block, int kv_head)
{
    mbarrier_wait(&shared->V_empty[V_at.stage], V_at.phase ^ 1);
    load_share<Config>(shared->V[V_at.stage], &problem.maps.V, block, kv_head,
                       &shared->V_full[V_at.stage], &shared->V_agreed[V_at.stage], V_at.phase);
    advance<Config::STAGES>(V_at);
}

/*
 * Requests all that the consumers will read, by one thread. For use n = 0, 1, ... of a place the
 * consumers wait for phase n of `full`; before it the producer waits for phase n - 1 of `empty`, of
 * the other parity. On a new barrier phase -1 counts as over: new places are empty.
 */
template <class Config>
static __device__ __forceinline__ void produce(struct shared_tiles<Config> *shared,
                                               const struct hopper_problem &problem)
{
    struct ring_position Q_at = {0, 0}, K_at = {0, 0}, V_at = {0, 0};
    int values = -1, values_head = 0; /* the block whose values are to be requested next */
    for (int number = blockIdx.x; number < problem.order.tiles; number += gridDim.x) {
        const struct hopper_tile tile = hopper_tile_of<Config::Br, CAUSAL>(problem, number);
        mbarrier_wait(&shared->Q_empty[Q_at.stage], Q_at.phase ^ 1);
        shared->tile[Q_at.stage] = tile;
        load_queries<Config>(shared->Q[Q_at.stage], problem, tile, &shared->Q_full[Q_at.stage]);
        advance<2>(Q_at);
        for (int block = tile.blocks - 1; block >= 0; block--) {
            mbarrier_wait(&shared->K_empty[K_at.stage], K_at.phase ^ 1);
            load_share<Config>(shared->K[K_at.stage], &problem.maps.K, block, tile.kv_head,
                               &shared->K_full[K_at.stage], &shared->K_agreed[K_at.stage],
                               K_at.phase);
            advance<Config::STAGES>(K_at);
            if (values >= 0)
                produce_values(shared, V_at, problem, values, values_head);
            values = block;
            values_head = tile.kv_head;
        }
    }
    mbarrier_wait(&shared->Q_empty[Q_at.stage], Q_at.phase ^ 1);
    shared->tile[Q_at.stage] = {0, 0, 0, 0, 0};
    /* no bytes are expected: this arrival alone completes the phase */
    mbarrier_arrive(&shared->Q_full[Q_at.stage]);
    produce_values(shared, V_at, problem, values, values_head);
}

/* Computes one warpgroup's 64 rows of each of the block's tiles. */
template <class Config>
static __device__ __forceinline__ void compute_rows(struct shared_tiles<Config> *shared,
                                                    const struct hopper_problem &problem,
                                                    const CUtensorMap *map, int warpgroup)
{
    /* the warp's, behind the tiles */
    typename Config::T *staging =
        (typename Config::T *)(shared + 1) + threadIdx.x / WARP * WARP_ROWS * Config::HEAD_DIM;
    struct ring_position Q_at = {0, 0};
    struct consumer<Config> c;
    c.shared = shared;
    c.warpgroup = warpgroup;
    c.K_at = c.V_at = {0, 0};
    c.scale_log2 = problem.scale_log2;

    /* The first turn is warpgroup 0's, as if the last warpgroup had passed it on. */
    if (warpgroup == Config::WARPGROUPS - 1)
        pass_turn(c);
    mbarrier_wait(&shared->Q_full[Q_at.stage], Q_at.phase);
    struct hopper_tile tile = announced_tile(&shared->tile[Q_at.stage]);
    c.Q = shared->Q[Q_at.stage] + warpgroup * WARPGROUP_ROWS * Config::HEAD_DIM;
    begin_rows<CAUSAL>(c, problem, tile);
    clear_output(c);

    /* The first block: there is no output yet to overlap with. */
    int block = tile.blocks - 1;
    float rescale[2];
    mbarrier_wait(&shared->K_full[c.K_at.stage], c.K_at.phase);
    take_turn(c);
    start_scores(c, shared->K[c.K_at.stage]);
    pass_turn(c);
    finish_scores(c, block, block >= tile.unmasked, rescale);
    pack_rows<typename Config::T>(c.P, c.S);

    for (;;) {
        for (block--; block >= tile.unmasked; block--)
            step(c, block, true);
        for (; block >= 0; block--)
            step(c, block, false);
        if (threadIdx.x % WARP == 0)
            mbarrier_arrive(&shared->Q_empty[Q_at.stage]);
        advance<2>(Q_at);

        mbarrier_wait(&shared->Q_full[Q_at.stage], Q_at.phase);
        const struct hopper_tile next = announced_tile(&shared->tile[Q_at.stage]);
        if (next.blocks == 0)
            break;
        /* Across the edge: the next tile's first block with this tile's last output. */
        const float m[2] = {c.m[0], c.m[1]}, l[2] = {c.l[0], c.l[1]};
        c.Q = shared->Q[Q_at.stage] + warpgroup * WARPGROUP_ROWS * Config::HEAD_DIM;
        begin_rows<CAUSAL>(c, problem, next);
        block = next.blocks - 1;
        both_products(c, block, block >= next.unmasked, rescale);
        store_tile<Config>(problem, map, staging, tile, c.O, m, l);
        clear_output(c);
        pack_rows<typename Config::T>(c.P, c.S);
        tile = next;
    }

    /* The last block's output. */
    mbarrier_wait(&shared->V_full[c.V_at.stage], c.V_at.phase);
    start_output(c, shared->V[c.V_at.stage]);
    finish_output(c);
    store_tile<Config>(problem, map, staging, tile, c.O, c.m, c.l);
    /* Warpgroup 0 takes the last turn too: no barrier is left with half of its threads. */
    if (warpgroup == 0)
        take_turn(c);
    if (threadIdx.x % WARP == 0)
        tma_store_wait<0>(); /* shared memory stays this block's until it has been read */
}

template <class Config>
__global__ void __launch_bounds__(Config::THREADS, 1)
    flash_multicast(const __grid_constant__ struct hopper_problem problem,
                    const __grid_constant__ CUtensorMap map)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<Config> *shared = (struct shared_tiles<Config> *)shared_memory;
    /* the shuffle tells the compiler that all lanes have the same value */
    const int warpgroup = __shfl_sync(FULL_MASK, threadIdx.x / 128, 0);

    if (threadIdx.x == 0)
        initialise_barriers(shared);
    cluster_arrive();
    cluster_wait(); /* the barriers of both blocks exist before any thread reaches them */

    /* The launch's registers, 65536 over THREADS, move from the producer to the consumers. */
    if (warpgroup == Config::WARPGROUPS) {
        registers_decrease<40>();
        if (threadIdx.x == 128 * Config::WARPGROUPS)
            produce(shared, problem);
    } else {
        registers_increase<232>();
        compute_rows(shared, problem, &map, warpgroup);
    }
}

template <typename T>
static cudaError_t launch(const struct attention *call)
{
    typedef config<T, HEAD_DIM, HOPPER_WARPGROUPS(HEAD_DIM)> Config;
    struct hopper_problem problem;
    CUtensorMap map;
    const int bytes = sizeof(struct shared_tiles<Config>) + Config::Br * HEAD_DIM * sizeof(T);
    cudaError_t status = prepare_hopper(&problem, call, Config::Br,
                                        (const void *)flash_multicast<Config>, bytes, Bc / PAIR);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&map, call->O, (size_t)call->batch * call->heads, call->seq_q,
                                      call->head_dim, WARP_ROWS);
    struct device_limits device;
    if (status == cudaSuccess)
        status = current_device(&device);
    if (status != cudaSuccess)
        return status;
    const int pairs = resident_pairs(problem.order.tiles / PAIR, &device);
    return launch_in_clusters(PAIR, PAIR * pairs, Config::THREADS, bytes, call->stream,
                              flash_multicast<Config>, problem, map);
}

extern "C" cudaError_t attention_multicast(const struct attention *call)
{
    if (!pairs_pay(call))
        return attention_across_tiles(call);
    return call->type == TENSOR_BF16 ? launch<__nv_bfloat16>(call) : launch<__half>(call);
}
