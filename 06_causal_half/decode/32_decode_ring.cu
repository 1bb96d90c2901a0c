// needs: sm_90a
/*
 * Idea: a ring that never runs empty. Warps of their own ask the copy engine for all keys of the
 * block's share, and do not stop at the end of an item, while the others merge and store it.
 *
 *     two warps, one for K and one for V, for each tile of 64 keys of the share, of whichever item:
 *         wait until its place in the ring is empty
 *         ask the copy engine for it; where keys or pages are missing, copy what there is
 *     eight warps, for each part of an item in the share, as decode_balanced:
 *         for every other tile, by warpgroups:
 *             wait for the tile
 *             (m, l, O) of it, as decode_async; of more than 32 rows as decode_wgmma
 *             its place is empty
 *         the warps' (m, l, O) merge; then as decode_balanced, but where items are few:
 *         the blocks of a cluster have an item, and merge it in shared memory
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim] or pages of a pool
 * [pool_pages, kv_heads, page_size, head_dim], elements of type T; LSE [batch, heads, seq_q],
 * float; row-major. HEAD_DIM is head_dim rounded up to 64 or 128, the rest zeros.
 *
 * A box is a tile's keys, or a page's of them: a lane asks for each, and has looked its page up
 * when the tile before was asked for, so that the answer is there in time. What the last tile of a
 * sequence lacks must be zeros, and what lies there in memory may be anything: so a warp copies
 * this tile itself, key by key.
 *
 * What merges has a place of its own in shared memory, beside the ring: one block fits a
 * multiprocessor.
 *
 * Cost: global traffic as decode_balanced's, with half as many blocks; in clusters no pieces.
 *
 * Source: NVIDIA, CUDA C++ Programming Guide, distributed shared memory; FlashAttention-3 has a
 * producer warp, and merges its splits in a kernel of its own (github.com/Dao-AILab/
 * flash-attention).
 */
#include "06_causal_half/06_step.h"
#include "06_causal_half/hopper/tma_tiles.cuh"
#include "shares.cuh"
#include "warpgroup_tile.cuh"

static_assert(PANEL == PANEL_COLS, "a panel is filled by one box");
static const int CONSUMERS = DECODE_RING_WARPS * WARP, WARPGROUPS = DECODE_RING_WARPS / 4;
static const int PRODUCERS = 2; /* warps */

/* Tiles that the ring holds: 128 KB. */
static constexpr __host__ __device__ int stages_of(int head_dim)
{
    return head_dim == 64 ? 8 : 4;
}

/* What the blocks of a cluster leave for the rows that one of them merges: every CLUSTERth. */
template <int HEAD_DIM>
struct inbox {
    static const int CLUSTER = DECODE_RING_CLUSTER, OWN_ROWS = 32 / CLUSTER;
    float O[CLUSTER][OWN_ROWS][HEAD_DIM];
    float2 m_l[CLUSTER][OWN_ROWS];
};

/* A place in the ring is full when its tile is there, and empty when four warps have read it. */
template <typename T, int HEAD_DIM>
struct __align__(1024) shared_memory /* where the swizzle begins to count */
{
    struct key_tile<T, HEAD_DIM> tile[stages_of(HEAD_DIM)];
    union {
        T Q[ROWS * HEAD_DIM];         /* of more than 32 rows */
        struct inbox<HEAD_DIM> inbox; /* of fewer */
    };
    struct warp_states<HEAD_DIM, DECODE_RING_WARPS> states;
    uint64_t full[stages_of(HEAD_DIM)], empty[stages_of(HEAD_DIM)];
};

/* ---- the producer ---- */

/* The copy engine's descriptions of K and V. */
struct key_maps {
    CUtensorMap K, V;
};

/* Brings the tiles of a share, by two warps: one asks for K, and the other for V. */
template <typename T, int HEAD_DIM>
static __device__ __forceinline__ void
produce(struct shared_memory<T, HEAD_DIM> &shared, const struct key_maps &maps, const T *K,
        const T *V, const struct attention &shape, const struct balanced_plan &plan,
        struct share left, bool values)
{
    const int lane = threadIdx.x % WARP;
    const CUtensorMap *map = values ? &maps.V : &maps.K;
    struct ring_position at = {0, 0};
    while (left.units > 0) {
        const struct part part = part_of(shape, plan, left);
        leave_part(left, plan, part);
        const struct key_rows where = key_rows_of(shape, part.kv_head);
        const bool paged = where.pages != NULL;
        const int page_keys = 1 << where.page_bits, box_keys = paged ? min(page_keys, Bc) : Bc;
        const bool has_box = lane < Bc / box_keys;
        int key = part.first_key + (has_box ? lane * box_keys : 0);
        int page = has_box && key < part.end ? key_page(where, key) : 0;
        for (int first = part.first_key; first < part.end; first += Bc) {
            struct key_tile<T, HEAD_DIM> *tile = &shared.tile[at.stage];
            uint64_t *full = &shared.full[at.stage];
            /* on a new barrier the phase before the first counts as over: new places are empty */
            mbarrier_wait(&shared.empty[at.stage], at.phase ^ 1);
            const bool there = !paged || (page >= 0 && page < where.pool_pages);
            if (part.end - first >= Bc && __all_sync(FULL_MASK, there)) {
                if (lane == 0)
                    mbarrier_arrive_expect(full, sizeof tile->K);
                else
                    mbarrier_arrive(full);
                if (has_box) {
                    const int head = paged ? page * where.kv_heads + where.kv_head : where.kv_head;
                    const int row = paged ? key & (page_keys - 1) : key;
                    T *const half = values ? tile->V : tile->K;
                    load_panels<Bc, HEAD_DIM>(half + lane * box_keys * PANEL, map, row, head, full);
                }
            } else {
                if (!values) { /* one warp brings both */
                    copy_by_pages<WARP>(tile, K, V, where, first, part.end, shape.head_dim);
                    cp_async_commit();
                    cp_async_wait<0>();
                    /* wgmma sees the lane's copies, and what the engine brings here next comes
                     * after them */
                    async_proxy_fence();
                }
                mbarrier_arrive(full);
            }
            advance<stages_of(HEAD_DIM)>(at);
            key += Bc;
            page = has_box && key < part.end ? key_page(where, key) : 0;
        }
    }
}

/* ---- the consumers ---- */

/* Waits for all of them. */
static __device__ __forceinline__ void sync_consumers(void)
{
    named_barrier_sync(1, CONSUMERS);
}

/* Merges an item whose parts the blocks of the cluster have. Each sends what its warps have left of
 * a row to the block that merges it. */
template <typename T, int HEAD_DIM, int ROW_WARPS>
static __device__ __forceinline__ void
merge_cluster(const struct warp_states<HEAD_DIM, DECODE_RING_WARPS> *states,
              struct inbox<HEAD_DIM> *inbox, const struct decode_output &out,
              const struct open_item &item)
{
    constexpr int CLUSTER = DECODE_RING_CLUSTER, LANES = HEAD_DIM / 4;
    constexpr int APART = DECODE_RING_WARPS * WARP / LANES;
    const int feature = threadIdx.x % LANES * 4, first = threadIdx.x / LANES;
    const int rank = cluster_rank();
    cluster_wait(); /* every block has begun: what lies at its inbox's addresses is its inbox */
    for (int row = first; row < item.rows; row += APART) {
        const struct running of_block =
            merged_row<DECODE_RING_WARPS / ROW_WARPS>(states, row, feature);
        const int owner = row % CLUSTER, place = row / CLUSTER;
        cluster_store(cluster_address(shared_address(&inbox->O[rank][place][feature]), owner),
                      of_block.o);
        if (feature == 0)
            cluster_store(cluster_address(shared_address(&inbox->m_l[rank][place]), owner),
                          make_float2(of_block.m, of_block.l));
    }
    cluster_arrive();
    cluster_wait(); /* all have sent what they have of this block's rows */
    for (int row = first * CLUSTER + rank; row < item.rows && feature < out.head_dim;
         row += APART * CLUSTER) {
        struct running all = nothing();
#pragma unroll
        for (int of = 0; of < CLUSTER; of++) {
            const float2 m_l = inbox->m_l[of][row / CLUSTER];
            const struct running of_block = {
                m_l.x, m_l.y, *(const float4 *)&inbox->O[of][row / CLUSTER][feature]};
            merge(&all, of_block);
        }
        store_result<T>(out, item.row0 + row, feature, all);
    }
}

template <typename T, int HEAD_DIM, int ROW_WARPS>
__global__ void __launch_bounds__(CONSUMERS + PRODUCERS * WARP, DECODE_RING_RESIDENT)
    decode_ring(const T *Q, const T *K, const T *V, const struct decode_output out,
                unsigned int *counters, struct attention shape, struct balanced_plan plan,
                const __grid_constant__ struct key_maps maps)
{
    constexpr int STAGES = stages_of(HEAD_DIM), WARP_KEYS = 16 * ROW_WARPS; /* of a tile */
    extern __shared__ __align__(1024) char memory[];
    struct shared_memory<T, HEAD_DIM> &shared = *(struct shared_memory<T, HEAD_DIM> *)memory;
    /* the shuffle tells the compiler that all lanes have the same value */
    const int warp = __shfl_sync(FULL_MASK, threadIdx.x / WARP, 0), lane = threadIdx.x % WARP;
    const bool clustered = plan.cluster > 1;
    if (clustered)
        cluster_arrive_relaxed();
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(&shared.full[stage], PRODUCERS * WARP);
            mbarrier_init(&shared.empty[stage], 4 * WARP);
        }
        mbarrier_init_fence();
    }
    __syncthreads(); /* the barriers exist before any thread waits on them */

    struct share left = clustered        ? share_in_cluster(shape, plan)
                        : plan.share > 0 ? share_as_cut(shape, plan)
                                         : share_of(shape, plan);
    if (warp >= DECODE_RING_WARPS) {
        produce(shared, maps, K, V, shape, plan, left, warp > DECODE_RING_WARPS);
        return;
    }

    /* Of the warpgroup's tile a warp has WARP_KEYS keys from warp_key on, and the same 16 rows as
     * every ROW_WARPSth; in `states` warps with the same rows lie side by side. What this lane
     * names to ldmatrix is as in mma. */
    const int warpgroup = warp / 4, warp_key = warp % 4 / ROW_WARPS * WARP_KEYS;
    const int place = warp % ROW_WARPS * (DECODE_RING_WARPS / ROW_WARPS) + warp / ROW_WARPS;
    const struct key_tile<T, HEAD_DIM> *const first_tile = &shared.tile[warpgroup];
    const uint32_t lane_K = shared_address(
        &first_tile->K[swizzled(warp_key + lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8)]);
    const uint32_t lane_V =
        shared_address(&first_tile->V[swizzled(warp_key + lane % 16, lane / 16 * 8)]);

    struct open_item open[2] = {}; /* an item that goes on behind the share; one begun before it */
    struct ring_position at = {0, 0}; /* of the warpgroup's own places, every other */
    int next = warpgroup;             /* its next tile, counted from the part's first */
    while (left.units > 0) {
        const struct part part = part_of(shape, plan, left);
        const int keys = max(part.length, 0), tiles = tiles_of(part, Bc);
        struct warp_rows<HEAD_DIM> own;
        begin_rows<T>(own, Q + (size_t)part.kv_head * plan.head_rows * shape.head_dim, shape,
                      part.row0 + warp % ROW_WARPS * 16, plan.head_rows, keys);
        own.seen_by_all = decode_seen_by_all(shape, part.row0, part.rows, keys);
        if (ROW_WARPS == 4) {
            if (warpgroup == 0)
                keep_queries<T, HEAD_DIM>(shared.Q, own);
            async_proxy_fence(); /* wgmma sees the rows of Q */
            sync_consumers();    /* the other warpgroup multiplies them, too */
        }

        for (; next < tiles; next += WARPGROUPS) {
            const int stage = at.stage * WARPGROUPS + warpgroup;
            const int first_key = part.first_key + next * Bc + warp_key;
            mbarrier_wait(&shared.full[stage], at.phase);
            if constexpr (ROW_WARPS == 4) {
                attend_together<T, HEAD_DIM>(own, shared.Q, &shared.tile[stage], first_key);
            } else {
                const uint32_t to_stage = at.stage * WARPGROUPS * sizeof shared.tile[0];
                attend<T, HEAD_DIM, WARP_KEYS>(own, lane_K + to_stage, lane_V + to_stage,
                                               first_key);
            }
            mbarrier_arrive(&shared.empty[stage]);
            advance<STAGES / WARPGROUPS>(at);
        }
        next -= tiles;

        sync_consumers(); /* the item before is merged, whose states lie where these will */
        leave_state(&shared.states, own, place);
        sync_consumers(); /* every warp has left its state before any thread merges them */
        const struct open_item item = open_item_of(part, left, plan);
        if (clustered)
            merge_cluster<T, HEAD_DIM, ROW_WARPS>(&shared.states, &shared.inbox, out, item);
        else
            leave_item<T, HEAD_DIM, ROW_WARPS>(&shared.states, out, item, part.length < 0);
        /* with an index that varies they would not be in registers */
        if (item.pieces.count > 1 && left.unit == 0)
            open[0] = item;
        else if (item.pieces.count > 1)
            open[1] = item;
        leave_part(left, plan, part);
    }

    if (open[0].pieces.count + open[1].pieces.count > 0)
        count_pieces<T, HEAD_DIM, ROW_WARPS, DECODE_RING_WARPS>(out, counters, open);
}

/* ---- the launch ---- */

/* A box has the keys of a tile, or of a page where that has fewer. */
static cudaError_t maps_of_pages(struct key_maps *maps, const struct attention *call)
{
    const bool paged = call->pages != NULL;
    const size_t of = (size_t)(paged ? call->pool_pages : call->batch);
    const size_t keys = (size_t)(paged ? call->page_size : call->seq_kv);
    return key_maps_of(&maps->K, &maps->V, call, of * (size_t)call->kv_heads, keys,
                       paged && call->page_size < Bc ? call->page_size : Bc);
}

template <typename T, int HEAD_DIM, int ROW_WARPS>
static cudaError_t launch(const struct attention *call)
{
    struct device_limits device;
    struct key_maps maps;
    cudaError_t status = current_device(&device);
    if (status == cudaSuccess)
        status = maps_of_pages(&maps, call);
    if (status != cudaSuccess)
        return status;
    device.memory_speed = memory_speed_of_device();
    return launch_shares<T>(call, ring_plan_of(call, &device), decode_ring<T, HEAD_DIM, ROW_WARPS>,
                            CONSUMERS + PRODUCERS * WARP, sizeof(struct shared_memory<T, HEAD_DIM>),
                            maps);
}

extern "C" cudaError_t attention_decode_ring(const struct attention *call)
{
    return LAUNCH_ROWS(call);
}
