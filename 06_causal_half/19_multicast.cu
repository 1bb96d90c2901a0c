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
 * T; LSE [batch, heads, seq_q], float; row-major. HEAD_DIM is head_dim, a multiple of 8 above 64,
 * rounded up to 128, the rest zeros.
 *
 * At 700 TFLOP/s tiles of 128 queries read 5.5 TB/s of keys and values from the L2 cache. Two
 * blocks of a cluster compute neighbouring tiles of a head, and with MULTICAST loads the pair reads
 * them once. That is hardly faster by itself, but it saves power, and power limits long runs: the
 * clock stays higher.
 *
 * A place is filled in both blocks at once, so it must be empty in both: the two producers agree
 * before each load. Block 0's draws tiles for both. In a causal pair block 1's tile sees one block
 * of keys more than block 0's, whose consumers skip it.
 *
 * Short sequences, an odd number of tiles and head_dim up to 64 gain nothing and are persistent's.
 *
 * Cost: as drawn's, with half of the loads of K and V.
 *
 * Source: Shah et al., FlashAttention-3 (arXiv:2407.08608), its clusters of two for full attention;
 * Bikshandi and Shah, A Case Study in CUDA Kernel Fusion (arXiv:2312.11918), multicast.
 */
#include "06_step.h"
#include "clusters.cuh"
#include "device.h"
#include "ping_pong.cuh"
#include "tma_store.cuh"

/* Blocks of a cluster, each of which loads so many keys of a block of keys. */
static const int PAIR = 2;
static const int SHARE = Bc / PAIR;

/* Two warpgroups of 64 queries each, and the producer. */
template <typename ELEMENT>
struct config {
    typedef ELEMENT T;
    static const int HEAD_DIM = 128;
    static const int WARPGROUPS = 2;
    static const int Br = WARPGROUPS * WARPGROUP_ROWS;
    static const int THREADS = 128 * (WARPGROUPS + 1);
    static const int STAGES = 2;
};

/* The two tiles of a pair as one. */
template <class Config>
struct pair_of : Config {
    static const int Br = PAIR * Config::Br;
};

/*
 * Every place has two barriers. `full` completes when its bytes have arrived: consumers wait for
 * it. `empty` completes when the last consumer warp is done reading: the producer waits for it
 * before it fills the place again. A place of K or V has a third: `agreed` completes when both
 * producers of the pair have found theirs empty. (Aligned as TMA wants its boxes; so is what lies
 * behind it.)
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
    uint64_t drawn_full;
    int drawn;                  /* block 1's: what block 0 drew for both */
    struct hopper_tile tile[2]; /* whose queries Q holds; no blocks: there is no more */
    int skipped[2];             /* blocks of keys that only the other tile of the pair sees */
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
    mbarrier_init(&shared->drawn_full, 1);
    mbarrier_init_fence();
}

/* This block's share of a block of keys, or of values, into both blocks of the pair. The other one
 * loads the rest. */
template <class Config>
static __device__ __forceinline__ void load_share(typename Config::T *stage, const CUtensorMap *map,
                                                  int block, int kv_head, uint64_t *full,
                                                  uint64_t *empty, uint64_t *agreed, int phase)
{
    mbarrier_wait(empty, phase ^ 1);
    mbarrier_arrive_expect(full, Bc * Config::HEAD_DIM * sizeof *stage);
    for (int rank = 0; rank < PAIR; rank++)
        cluster_mbarrier_arrive(cluster_address(shared_address(agreed), rank));
    mbarrier_wait(agreed, phase);
    const int row = cluster_rank() * SHARE;
#pragma unroll
    for (int col = 0; col < Config::HEAD_DIM; col += PANEL_COLS)
        tma_load_multicast(shared_address(stage + col * Bc + row * PANEL_COLS), map, col,
                           block * Bc + row, kv_head, full, (1 << PAIR) - 1);
}

template <class Config>
static __device__ __forceinline__ void
produce_keys(struct shared_tiles<Config> *shared, struct ring_position &at,
             const struct hopper_problem &problem, int block, int kv_head)
{
    load_share<Config>(shared->K[at.stage], &problem.maps.K, block, kv_head,
                       &shared->K_full[at.stage], &shared->K_empty[at.stage],
                       &shared->K_agreed[at.stage], at.phase);
    advance<Config::STAGES>(at);
}

template <class Config>
static __device__ __forceinline__ void
produce_values(struct shared_tiles<Config> *shared, struct ring_position &at,
               const struct hopper_problem &problem, int block, int kv_head)
{
    load_share<Config>(shared->V[at.stage], &problem.maps.V, block, kv_head,
                       &shared->V_full[at.stage], &shared->V_empty[at.stage],
                       &shared->V_agreed[at.stage], at.phase);
    advance<Config::STAGES>(at);
}

/* This block's tile of a pair. */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ struct hopper_tile own_tile(const struct hopper_problem &problem,
                                                              const struct hopper_tile &pair)
{
    const int seq_q = problem.call.seq_q, seq_kv = problem.call.seq_kv;
    struct hopper_tile tile = pair;
    tile.row0 += cluster_rank() * Config::Br;
    tile.blocks =
        max(1, ceil_div(visible_keys<CAUSAL>(tile.row0 + Config::Br - 1, seq_q, seq_kv), Bc));
    tile.unmasked = visible_keys<CAUSAL>(max(tile.row0, 0), seq_q, seq_kv) / Bc;
    return tile;
}

/*
 * Requests everything that the consumers will read, by one thread. For use n = 0, 1, ... of a place
 * the consumers wait for phase n of `full`, and before it the producer waits for phase n - 1 of
 * `empty`, which has the other parity. On a new barrier phase -1 counts as over: new places are
 * empty.
 */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ void produce(struct shared_tiles<Config> *shared,
                                               const struct hopper_problem &problem,
                                               unsigned int *counter)
{
    struct ring_position Q_at = {0, 0}, K_at = {0, 0}, V_at = {0, 0};
    int values = -1, values_head = 0; /* the block whose values are to be requested next */
    const bool draws = cluster_rank() == 0;
    int drawn_phase = 0;
    for (int number = blockIdx.x / PAIR; number < problem.order.tiles;) {
        /* the next pair's number, early: the counter's answer takes a while */
        unsigned int draw = 0;
        if (draws)
            draw = atomicAdd(counter, 1u);
        const struct hopper_tile pair = hopper_tile_of<pair_of<Config>, CAUSAL>(problem, number);
        const struct hopper_tile tile = own_tile<Config, CAUSAL>(problem, pair);
        mbarrier_wait(&shared->Q_empty[Q_at.stage], Q_at.phase ^ 1);
        shared->tile[Q_at.stage] = tile;
        shared->skipped[Q_at.stage] = pair.blocks - tile.blocks;
        load_queries<Config>(shared->Q[Q_at.stage], problem, tile, &shared->Q_full[Q_at.stage]);
        advance<2>(Q_at);
        for (int block = pair.blocks - 1; block >= 0; block--) {
            produce_keys(shared, K_at, problem, block, tile.kv_head);
            /* The pair agreed on these keys: so block 1 has read its last number. By the middle of
             * the tile the counter has answered. */
            if (draws && block == pair.blocks / 2)
                cluster_store_async(cluster_address(shared_address(&shared->drawn), 1), (int)draw,
                                    cluster_address(shared_address(&shared->drawn_full), 1));
            if (values >= 0)
                produce_values(shared, V_at, problem, values, values_head);
            values = block;
            values_head = tile.kv_head;
        }
        if (!draws) {
            mbarrier_arrive_expect(&shared->drawn_full, sizeof shared->drawn);
            mbarrier_wait(&shared->drawn_full, drawn_phase);
            drawn_phase ^= 1;
            draw = (unsigned int)shared->drawn;
        }
        number = (int)(gridDim.x / PAIR + draw);
    }
    mbarrier_wait(&shared->Q_empty[Q_at.stage], Q_at.phase ^ 1);
    shared->tile[Q_at.stage] = {0, 0, 0, 0, 0};
    /* no bytes are expected: this arrival alone completes the phase */
    mbarrier_arrive(&shared->Q_full[Q_at.stage]);
    produce_values(shared, V_at, problem, values, values_head);
}

/* What the producer wrote. Every lane reads the same; the shuffles tell the compiler so. */
static __device__ __forceinline__ struct hopper_tile
announced_tile(const struct hopper_tile *shared)
{
    struct hopper_tile tile;
    tile.head = __shfl_sync(FULL_MASK, shared->head, 0);
    tile.row0 = __shfl_sync(FULL_MASK, shared->row0, 0);
    tile.blocks = __shfl_sync(FULL_MASK, shared->blocks, 0);
    tile.unmasked = __shfl_sync(FULL_MASK, shared->unmasked, 0);
    return tile;
}

/* `staging` is the warp's. */
template <class Config>
static __device__ __forceinline__ void
store_tile(const struct hopper_problem &problem, const CUtensorMap *map,
           typename Config::T *staging, const struct hopper_tile &tile,
           float (&O)[Config::HEAD_DIM / 2], const float (&m)[2], const float (&l)[2])
{
    const int seq_q = problem.call.seq_q;
    const int warp_row = tile.row0 + threadIdx.x / WARP * WARP_ROWS;
    const size_t first = (size_t)tile.head * seq_q; /* the head's first row */
    float *LSE = problem.call.LSE == NULL ? NULL : problem.call.LSE + first;
    finish_rows(O, m, l, LSE, warp_row, seq_q, problem.scale_log2);
    uint32_t packed[Config::HEAD_DIM / 4];
    pack_rows<typename Config::T>(packed, O);
    if (threadIdx.x % WARP == 0)
        tma_store_wait_read<0>(); /* the tile before may still be read from the staging place */
    __syncwarp();
    store_by_tma<Config::HEAD_DIM>(map, staging, packed, warp_row, tile.head);
}

/* A block of keys, or of values, that only the other tile of the pair sees. */
template <class Config>
static __device__ __forceinline__ void skip(uint64_t *full, uint64_t *empty,
                                            struct ring_position &at)
{
    mbarrier_wait(&full[at.stage], at.phase);
    if (threadIdx.x % WARP == 0)
        mbarrier_arrive(&empty[at.stage]);
    advance<Config::STAGES>(at);
}

/* Computes one warpgroup's 64 rows of each of the block's tiles. */
template <class Config, bool CAUSAL>
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
    int skipped = __shfl_sync(FULL_MASK, shared->skipped[Q_at.stage], 0);
    begin_rows<CAUSAL>(c, problem, tile);
    clear_output(c);
    if (CAUSAL && skipped)
        skip<Config>(shared->K_full, shared->K_empty, c.K_at);

    /* The first block: there is no output yet to overlap with. */
    int block = tile.blocks - 1;
    float rescale[2];
    mbarrier_wait(&shared->K_full[c.K_at.stage], c.K_at.phase);
    take_turn(c);
    start_scores(c, shared->K[c.K_at.stage]);
    pass_turn(c);
    finish_scores<0>(c, block, block >= tile.unmasked, rescale);
    pack_rows<typename Config::T>(c.P, c.S);

    for (;;) {
        if (CAUSAL && skipped)
            skip<Config>(shared->V_full, shared->V_empty, c.V_at);
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
        skipped = __shfl_sync(FULL_MASK, shared->skipped[Q_at.stage], 0);
        if (CAUSAL && skipped)
            skip<Config>(shared->K_full, shared->K_empty, c.K_at);
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

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(Config::THREADS, 1)
    flash_multicast(const __grid_constant__ struct hopper_problem problem,
                    const __grid_constant__ CUtensorMap map, unsigned int *counter)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<Config> *shared = (struct shared_tiles<Config> *)shared_memory;
    /* the shuffle tells the compiler that all lanes have the same value */
    const int warpgroup = __shfl_sync(FULL_MASK, threadIdx.x / 128, 0);

    if (threadIdx.x == 0)
        initialise_barriers(shared);
    cluster_arrive();
    cluster_wait(); /* the barriers of both blocks exist before any thread reaches them */

    /* Registers are those of the launch, 65536 over THREADS, moved from the producer to the
     * consumers. */
    if (warpgroup == Config::WARPGROUPS) {
        registers_decrease<40>();
        if (threadIdx.x == 128 * Config::WARPGROUPS)
            produce<Config, CAUSAL>(shared, problem, counter);
        __syncwarp();
    } else {
        registers_increase<232>();
        compute_rows<Config, CAUSAL>(shared, problem, &map, warpgroup);
    }
    cluster_arrive();
    cluster_wait(); /* the other block may still load into this one's shared memory */
}

/* Pairs pay from LEAST_KEYS on, measured. */
template <typename T, int HEAD_DIM, bool CAUSAL, int LEAST_KEYS = CAUSAL ? 8192 : 2048>
static cudaError_t launch(const struct attention *call)
{
    typedef config<T> Config;
    if (HEAD_DIM != Config::HEAD_DIM || call->seq_kv < LEAST_KEYS ||
        ceil_div(call->seq_q, Config::Br) % PAIR != 0)
        return attention_persistent(call);

    struct hopper_problem problem;
    CUtensorMap map;
    const int bytes =
        sizeof(struct shared_tiles<Config>) + Config::Br * Config::HEAD_DIM * sizeof(T);
    cudaError_t status =
        prepare_hopper(&problem, call, pair_of<Config>::Br,
                       (const void *)flash_multicast<Config, CAUSAL>, bytes, SHARE);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&map, call->O, (size_t)call->batch * call->heads, call->seq_q,
                                      call->head_dim, WARP_ROWS);
    int multiprocessors;
    if (status == cudaSuccess)
        status = device_attribute(cudaDevAttrMultiProcessorCount, &multiprocessors);
    unsigned int *const counter = (unsigned int *)call->workspace;
    if (status == cudaSuccess)
        status = cudaMemsetAsync(counter, 0, sizeof *counter, call->stream);
    if (status != cudaSuccess)
        return status;
    const int pairs = multiprocessors / PAIR;
    const int blocks = PAIR * (problem.order.tiles < pairs ? problem.order.tiles : pairs);
    return launch_in_clusters(PAIR, blocks, Config::THREADS, bytes, call->stream,
                              flash_multicast<Config, CAUSAL>, problem, map, counter);
}

extern "C" cudaError_t attention_multicast(const struct attention *call)
{
    return LAUNCH(call);
}
