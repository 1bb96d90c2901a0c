// needs: sm_90a
/*
 * Idea: blocks stay. One per multiprocessor draws tile after tile, and what kept it busy inside a
 * tile, loads ahead and two products in flight, goes on across the edge between two tiles.
 *
 *     for each block of BN keys, last to first:
 *         start S_next = Q * K_next^T          start O += P * V
 *         softmax of S_next as soon as that is there, while O is under way
 *         O = O * 2^(c * m - c * m_new)        P = P_next                        c = scale * log2 e
 *     at the end:  O = O / l                   LSE   = (c * m + log2 l) * ln 2
 *     where K_next may be the next tile's first: then O is stored and starts from 0
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], halves; LSE
 * [batch, heads, seq_q], float; row-major. HEAD_DIM is head_dim, a multiple of 8, rounded up to 64
 * or 128, the rest zeros.
 *
 * A block that computes one tile begins with empty places and ends with idle tensor cores, and a
 * multiprocessor has room for only one such block. Here the producer draws the next tile from a
 * counter while it orders this one's, and goes on with that tile's Q, into the other of two places,
 * and its first K. Consumers start its scores together with the last output of this tile. Drawing
 * beats dealing out in advance: causal tiles differ in length, the longest go first
 * (tile_order.cuh), and whoever is done takes the next.
 *
 * HEAD_DIM 64 has three consumers, and two in short causal problems: there most blocks of keys lie
 * on the diagonal, and the taller the tile, the more of such a block is computed and masked.
 *
 * Cost: global traffic as half's with this BM, shared as tma_wgmma's, and one atomic operation per
 * tile.
 *
 * Source: Shah et al., FlashAttention-3 (arXiv:2407.08608), section 3; stream-K and persistent
 * kernels of CUTLASS.
 */
#include "06_step.h"
#include "device.h"
#include "ping_pong.cuh"
#include "tma_store.cuh"

struct persistent_problem {
    struct hopper_problem of_tiles;
    CUtensorMap O;
    unsigned int *drawn; /* how many tiles were drawn beyond each block's first */
};

/* As producer.cuh's, but this producer draws tiles. */
template <int WARPGROUPS>
struct registers {
    static const int PRODUCER = WARPGROUPS == 3 ? 32 : 40;
    static const int CONSUMER = WARPGROUPS == 3 ? 160 : 232;
};

template <int HEAD_DIM, int WARPGROUPS>
struct shared_tiles {
    __half Q[2][config<HEAD_DIM, WARPGROUPS>::BM * HEAD_DIM];
    __half O[config<HEAD_DIM, WARPGROUPS>::BM * HEAD_DIM];
    struct key_value_ring<HEAD_DIM, config<HEAD_DIM, WARPGROUPS>::STAGES> ring;
    uint64_t Q_full[2], Q_empty[2];
    struct hopper_tile tile[2]; /* whose queries Q holds; no blocks: there is no more */
};

/* Orders everything that the consumers will read, in the order in which they will: values one block
 * behind keys. */
template <int HEAD_DIM, int WARPGROUPS, bool CAUSAL>
static __device__ __forceinline__ void produce(struct shared_tiles<HEAD_DIM, WARPGROUPS> *shared,
                                               const struct persistent_problem &persistent)
{
    const struct hopper_problem &problem = persistent.of_tiles;
    struct ring_position Q_at = {0, 0}, K_at = {0, 0}, V_at = {0, 0};
    const int tiles = problem.order.tiles;
    int values = -1, values_head = 0; /* the block whose values are to be ordered next */

    for (int number = blockIdx.x; number < tiles;) {
        /* the next tile's, early: the answer takes its time */
        const int draw = (int)atomicAdd(persistent.drawn, 1u);
        const struct hopper_tile tile =
            hopper_tile_of<config<HEAD_DIM, WARPGROUPS>::BM, CAUSAL>(problem, number);
        mbarrier_wait(&shared->Q_empty[Q_at.stage], Q_at.phase ^ 1);
        shared->tile[Q_at.stage] = tile;
        load_queries<HEAD_DIM, WARPGROUPS>(shared->Q[Q_at.stage], &problem.Q, tile.row0, tile.head,
                                           &shared->Q_full[Q_at.stage]);
        advance<2>(Q_at);
        for (int block = tile.blocks - 1; block >= 0; block--) {
            produce_keys(shared->ring, K_at, &problem.K, block, tile.kv_head);
            if (values >= 0)
                produce_values(shared->ring, V_at, &problem.V, values, values_head);
            values = block;
            values_head = tile.kv_head;
        }
        number = (int)gridDim.x + draw;
    }
    mbarrier_wait(&shared->Q_empty[Q_at.stage], Q_at.phase ^ 1);
    shared->tile[Q_at.stage] = {0, 0, 0, 0, 0};
    /* no queries, only the news that there are none */
    mbarrier_arrive(&shared->Q_full[Q_at.stage]);
    produce_values(shared->ring, V_at, &problem.V, values, values_head);
}

/* What the producer wrote. Every lane reads the same; the shuffles tell the compiler so. */
static __device__ __forceinline__ struct hopper_tile
announced_tile(const struct hopper_tile *shared)
{
    struct hopper_tile tile;
    tile.head = __shfl_sync(0xffffffff, shared->head, 0);
    tile.kv_head = __shfl_sync(0xffffffff, shared->kv_head, 0);
    tile.row0 = __shfl_sync(0xffffffff, shared->row0, 0);
    tile.blocks = __shfl_sync(0xffffffff, shared->blocks, 0);
    tile.unmasked = __shfl_sync(0xffffffff, shared->unmasked, 0);
    return tile;
}

template <int HEAD_DIM>
static __device__ __forceinline__ void
store_tile(const struct persistent_problem &persistent, const struct hopper_tile &tile,
           __half *staging, float (&O)[HEAD_DIM / 2], const float (&m)[2], const float (&l)[2])
{
    const struct hopper_problem &problem = persistent.of_tiles;
    const int warp_row = tile.row0 + threadIdx.x / 32 * WARP_ROWS;
    float *LSE = problem.LSE == NULL ? NULL : problem.LSE + (size_t)tile.head * problem.shape.seq_q;
    finish_rows(O, m, l, LSE, warp_row, problem.shape.seq_q, problem.scale_log2);
    uint32_t packed[HEAD_DIM / 4];
    pack_rows(packed, O);
    store_rows_by_tma<HEAD_DIM>(&persistent.O, staging + threadIdx.x / 32 * WARP_ROWS * HEAD_DIM,
                                packed, warp_row, tile.head);
}

/* Computes one warpgroup's 64 rows of every tile that the producer announces. */
template <int HEAD_DIM, int WARPGROUPS, bool CAUSAL>
static __device__ __forceinline__ void consume(struct shared_tiles<HEAD_DIM, WARPGROUPS> *shared,
                                               const struct persistent_problem &persistent,
                                               int warpgroup)
{
    const struct hopper_problem &problem = persistent.of_tiles;
    const int seq_q = problem.shape.seq_q, seq_kv = problem.shape.seq_kv;
    const int warp_row = threadIdx.x / 32 * WARP_ROWS;
    struct key_value_ring<HEAD_DIM, config<HEAD_DIM, WARPGROUPS>::STAGES> &ring = shared->ring;
    struct ring_position Q_at = {0, 0}, K_at = {0, 0}, V_at = {0, 0};
    const int lane = threadIdx.x % 32;
    const __half *Q = shared->Q[0] + warpgroup * WARPGROUP_ROWS * HEAD_DIM;
    int visible[2];
    struct rows<HEAD_DIM> rows;
    clear_rows(rows);

    begin_turns<WARPGROUPS>(warpgroup);
    mbarrier_wait(&shared->Q_full[0], 0);
    struct hopper_tile tile = announced_tile(&shared->tile[0]);
    find_visible<CAUSAL>(visible, tile.row0 + warp_row, seq_q, seq_kv);
    int block = tile.blocks - 1;
    first_step<WARPGROUPS>(ring, rows, Q, K_at, warpgroup, block >= tile.unmasked, block * BN,
                           visible, problem.scale_log2);

    for (;;) {
        for (block--; block >= tile.unmasked; block--)
            step<WARPGROUPS>(ring, rows, Q, K_at, V_at, warpgroup, true, block * BN, visible,
                             problem.scale_log2);
        for (; block >= 0; block--)
            step<WARPGROUPS>(ring, rows, Q, K_at, V_at, warpgroup, false, block * BN, visible,
                             problem.scale_log2);

        if (lane == 0)
            mbarrier_arrive(&shared->Q_empty[Q_at.stage]);
        advance<2>(Q_at);
        mbarrier_wait(&shared->Q_full[Q_at.stage], Q_at.phase);
        const struct hopper_tile next = announced_tile(&shared->tile[Q_at.stage]);
        if (next.blocks == 0)
            break;

        /* Across the edge: the next tile's first scores and softmax with this tile's last
         * output. */
        const float m[2] = {rows.m[0], rows.m[1]}, l[2] = {rows.l[0], rows.l[1]};
        float alpha[2];
        rows.m[0] = rows.m[1] = -CUDART_INF_F;
        rows.l[0] = rows.l[1] = 0.0f;
        Q = shared->Q[Q_at.stage] + warpgroup * WARPGROUP_ROWS * HEAD_DIM;
        find_visible<CAUSAL>(visible, next.row0 + warp_row, seq_q, seq_kv);
        block = next.blocks - 1;
        start_products<WARPGROUPS>(ring, rows, Q, K_at, V_at, warpgroup);
        finish_products(ring, rows, K_at, V_at, block >= next.unmasked, block * BN, visible,
                        problem.scale_log2, alpha);
        store_tile<HEAD_DIM>(persistent, tile, shared->O, rows.O, m, l);
        for (int i = 0; i < HEAD_DIM / 2; i++)
            rows.O[i] = 0.0f;
        pack_rows(rows.P, rows.S);
        tile = next;
    }

    last_step(ring, rows, V_at);
    end_turns<WARPGROUPS>(warpgroup);
    store_tile<HEAD_DIM>(persistent, tile, shared->O, rows.O, rows.m, rows.l);
    if (lane == 0)
        tma_store_wait<0>(); /* shared memory stays this block's until it has been read */
}

template <int HEAD_DIM, int WARPGROUPS, bool CAUSAL>
__global__ void __launch_bounds__(config<HEAD_DIM, WARPGROUPS>::THREADS, 1)
    flash_persistent(const __grid_constant__ struct persistent_problem problem)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<HEAD_DIM, WARPGROUPS> *shared =
        (struct shared_tiles<HEAD_DIM, WARPGROUPS> *)shared_memory;
    const int warpgroup =
        /* tells the compiler: the same in all lanes */
        __shfl_sync(0xffffffff, threadIdx.x / 128, 0);

    if (threadIdx.x == 0) {
        for (int place = 0; place < 2; place++) {
            mbarrier_init(&shared->Q_full[place], 1);
            mbarrier_init(&shared->Q_empty[place], 4 * WARPGROUPS);
        }
        initialise_ring(shared->ring, 4 * WARPGROUPS);
        mbarrier_init_fence();
    }
    __syncthreads(); /* the barriers exist before anyone waits on them */

    if (warpgroup == WARPGROUPS) {
        registers_decrease<registers<WARPGROUPS>::PRODUCER>();
        if (threadIdx.x == 128 * WARPGROUPS)
            produce<HEAD_DIM, WARPGROUPS, CAUSAL>(shared, problem);
    } else {
        registers_increase<registers<WARPGROUPS>::CONSUMER>();
        consume<HEAD_DIM, WARPGROUPS, CAUSAL>(shared, problem, warpgroup);
    }
}

template <int HEAD_DIM, int WARPGROUPS, bool CAUSAL>
static cudaError_t launch(const struct attention *call)
{
    using shape = config<HEAD_DIM, WARPGROUPS>;
    struct persistent_problem problem;
    problem.drawn = (unsigned int *)call->workspace;
    int multiprocessors;
    cudaError_t status = describe_hopper_problem(&problem.of_tiles, call, shape::BM);
    if (status != cudaSuccess || (status = describe_output(&problem.O, call)) != cudaSuccess ||
        (status = device_attribute(cudaDevAttrMultiProcessorCount, &multiprocessors)) !=
            cudaSuccess ||
        (status = cudaMemsetAsync(problem.drawn, 0, sizeof *problem.drawn, call->stream)) !=
            cudaSuccess)
        return status;
    const int tiles = problem.of_tiles.order.tiles;
    return launch_hopper(flash_persistent<HEAD_DIM, WARPGROUPS, CAUSAL>, problem,
                         tiles < multiprocessors ? tiles : multiprocessors, shape::THREADS,
                         sizeof(struct shared_tiles<HEAD_DIM, WARPGROUPS>), call->stream);
}

extern "C" cudaError_t attention_persistent(const struct attention *call)
{
    const int SHORT = 512; /* keys, measured */
    if (call->head_dim > 64)
        return call->causal ? launch<128, 2, true>(call) : launch<128, 2, false>(call);
    if (call->causal && call->seq_kv <= SHORT)
        return launch<64, 2, true>(call);
    return call->causal ? launch<64, 3, true>(call) : launch<64, 3, false>(call);
}
