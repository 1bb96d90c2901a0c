// needs: sm_90a
/*
 * Idea: a ring that never runs empty. Warps copy ahead along the block's share, and do not stop at
 * the end of an item; and those that need no other warp's keys wait for no other warp.
 *
 *     a team is as many warps as there are tiles of 16 rows: 1, 2 or 4. Eight warps a block
 *     for each part of an item in the block's share, as decode_balanced:
 *         for each tile of 128 keys that some row sees, by teams:
 *             wait for the team's keys of the tile
 *             (m, l, O) of them, as decode_async; a team of four as decode_wgmma
 *             copy the same keys of the tile that is STAGES on in the share, of whichever item
 *         the teams' (m, l, O) merge; then as decode_balanced, but where items are few:
 *         the blocks of a cluster have an item, and merge it in shared memory
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim] or pages of a pool
 * [pool_pages, kv_heads, page_size, head_dim], elements of type T; LSE [batch, heads, seq_q],
 * float; row-major. HEAD_DIM is head_dim rounded up to 64 or 128, the rest zeros.
 *
 * A warp copies 16 keys of each tile, of which one page has all: it asks the table for the next
 * page when it has used this one, so that the answer is there in time. What merges has a place of
 * its own in shared memory, beside the ring: one block fits a multiprocessor.
 *
 * Cost: global traffic as decode_balanced's, with half as many blocks; in clusters no pieces.
 *
 * Source: NVIDIA, CUDA C++ Programming Guide, distributed shared memory; FlashAttention-3 merges
 * its splits in a kernel of its own (github.com/Dao-AILab/flash-attention).
 */
#include "06_causal_half/06_step.h"
#include "shares.cuh"
#include "warpgroup_tile.cuh"

static const int WARP_KEYS = 16; /* that a warp copies of a tile: no page is smaller */
static const int TILE_KEYS = DECODE_RING_WARPS * WARP_KEYS;

/* Tiles that the ring holds: 128 KB. */
static constexpr __host__ __device__ int stages_of(int head_dim)
{
    return head_dim == 64 ? 4 : 2;
}

/* What the blocks of a cluster leave for the rows that one of them merges: every CLUSTERth. */
template <int HEAD_DIM>
struct inbox {
    static const int CLUSTER = DECODE_RING_CLUSTER, OWN_ROWS = 32 / CLUSTER;
    float O[CLUSTER][OWN_ROWS][HEAD_DIM];
    float2 m_l[CLUSTER][OWN_ROWS];
};

template <typename T, int HEAD_DIM>
struct shared_memory {
    struct key_tile<T, HEAD_DIM> tile[stages_of(HEAD_DIM)][TILE_KEYS / Bc];
    struct warp_states<HEAD_DIM, DECODE_RING_WARPS> states;
    union __align__(1024) /* where wgmma's swizzle begins to count */
    {
        T Q[ROWS * HEAD_DIM];         /* of a team of four */
        struct inbox<HEAD_DIM> inbox; /* of the others */
    };
};

/* Asks for the queries of the warp's rows of a part. */
template <typename T, int TEAM, int HEAD_DIM>
static __device__ __forceinline__ void
ask_queries(uint32_t (&q)[HEAD_DIM / 16][4], const T *Q, const struct attention &shape,
            const struct balanced_plan &plan, const struct part &part)
{
    load_queries<T, HEAD_DIM>(q, Q + (size_t)part.kv_head * plan.head_rows * shape.head_dim, shape,
                              part.row0 + threadIdx.x / WARP % TEAM * 16, plan.head_rows);
}

/* Begins the warp's rows of a part with these queries. */
template <int TEAM, int HEAD_DIM>
static __device__ __forceinline__ void
begin_part(struct warp_rows<HEAD_DIM> &own, const uint32_t (&queries)[HEAD_DIM / 16][4],
           const struct attention &shape, const struct part &part)
{
    const int keys = max(part.length, 0);
    begin_state(own, shape, part.row0 + threadIdx.x / WARP % TEAM * 16, keys);
    own.seen_by_all = min(decode_seen_by_all(shape, part.row0, part.rows, keys), part.end);
#pragma unroll
    for (int r = 0; r < 2; r++) /* a tile may reach past the share's end */
        own.visible[r] = min(own.visible[r], part.end);
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 4; i++)
        own.q[i / 4][i % 4] = queries[i / 4][i % 4];
}

/* Where the warp's copies stand: it has asked for all tiles of the share before this one. */
struct ahead {
    struct share left;
    struct key_rows where;
    int key, end, tiles; /* the warp's first key of the tile; tiles of the part from here on */
    int page;            /* that has the key */
};

/* Goes on from a part, the first of what is left, to the first that has tiles. */
static __device__ __forceinline__ void begin_ahead(struct ahead &ahead, struct part part,
                                                   const struct attention &shape,
                                                   const struct balanced_plan &plan)
{
    for (;;) {
        leave_part(ahead.left, plan, part);
        if (part.end > part.first_key || ahead.left.units <= 0)
            break;
        part = part_of(shape, plan, ahead.left);
    }
    ahead.where = key_rows_of(shape, part.kv_head);
    ahead.key = part.first_key + threadIdx.x / WARP * WARP_KEYS;
    ahead.end = part.end;
    ahead.tiles = tiles_of(part, TILE_KEYS);
    ahead.page = ahead.key < ahead.end ? key_page(ahead.where, ahead.key) : 0;
}

/* Starts to copy the warp's keys of the next tile; nothing at the end of the share. */
template <typename T, int HEAD_DIM>
static __device__ __forceinline__ void
copy_ahead(struct ahead &ahead, struct key_tile<T, HEAD_DIM> *tiles, const T *K, const T *V,
           const struct attention &shape, const struct balanced_plan &plan)
{
    if (ahead.tiles > 0) {
        const int row = threadIdx.x / WARP * WARP_KEYS;
        copy_keys<WARP_KEYS, WARP>(&tiles[row / Bc], row % Bc, K, V,
                                   key_row_in(ahead.where, ahead.page, ahead.key), ahead.key,
                                   ahead.end, shape.head_dim);
        ahead.key += TILE_KEYS;
        ahead.tiles--;
        if (ahead.tiles > 0)
            ahead.page = ahead.key < ahead.end ? key_page(ahead.where, ahead.key) : 0;
        else if (ahead.left.units > 0)
            begin_ahead(ahead, part_of(shape, plan, ahead.left), shape, plan);
    }
    cp_async_commit();
}

/* Waits for the warps of a team. */
template <int TEAM>
static __device__ __forceinline__ void sync_team(void)
{
    if (TEAM == 1)
        __syncwarp();
    else
        named_barrier_sync(1 + threadIdx.x / (TEAM * WARP), TEAM * WARP);
}

/* Merges an item whose parts the blocks of the cluster have. Each sends what its warps have left of
 * a row to the block that merges it. */
template <typename T, int HEAD_DIM, int TEAM>
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
        const struct running of_block = merged_row<DECODE_RING_WARPS / TEAM>(states, row, feature);
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

template <typename T, int HEAD_DIM, int TEAM>
__global__ void __launch_bounds__(DECODE_RING_WARPS *WARP, DECODE_RING_RESIDENT)
    decode_ring(const T *Q, const T *K, const T *V, const struct decode_output out,
                unsigned int *counters, struct attention shape, struct balanced_plan plan)
{
    constexpr int STAGES = stages_of(HEAD_DIM), TEAMS = DECODE_RING_WARPS / TEAM;
    constexpr int TEAM_KEYS = TEAM * WARP_KEYS;
    extern __shared__ __align__(1024) char memory[];
    struct shared_memory<T, HEAD_DIM> &shared = *(struct shared_memory<T, HEAD_DIM> *)memory;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, team = warp / TEAM;
    const int team_key = team * TEAM_KEYS; /* of a tile */
    const bool clustered = plan.cluster > 1;
    if (clustered)
        cluster_arrive_relaxed();

    struct share left = clustered        ? share_in_cluster(shape, plan)
                        : plan.share > 0 ? share_as_cut(shape, plan)
                                         : share_of(shape, plan);
    if (left.units <= 0)
        return;
    struct part next = part_of(shape, plan, left);
    struct ahead ahead;
    ahead.left = left;
    begin_ahead(ahead, next, shape, plan);
    uint32_t queries[HEAD_DIM / 16][4]; /* of that part */
#pragma unroll
    for (int stage = 0; stage < STAGES; stage++) {
        copy_ahead(ahead, shared.tile[stage], K, V, shape, plan);
        if (stage == 0) /* they would wait for all that is asked for before them */
            ask_queries<T, TEAM, HEAD_DIM>(queries, Q, shape, plan, next);
    }

    /* The rows this lane names to ldmatrix, as in mma. */
    const struct key_tile<T, HEAD_DIM> *const team_tile = &shared.tile[0][team_key / Bc];
    const int team_row = team_key % Bc;
    const uint32_t lane_K = shared_address(
        &team_tile->K[swizzled(team_row + lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8)]);
    const uint32_t lane_V =
        shared_address(&team_tile->V[swizzled(team_row + lane % 16, lane / 16 * 8)]);

    struct open_item open[2] = {}; /* an item that goes on behind the share; one begun before it */
    for (int stage = 0; left.units > 0;) {
        const struct part part = next;
        struct warp_rows<HEAD_DIM> own;
        begin_part<TEAM>(own, queries, shape, part);
        if (TEAM == 4) {
            if (team == 0)
                keep_queries<T, HEAD_DIM>(shared.Q, own);
            async_proxy_fence(); /* wgmma sees the rows of Q */
            __syncthreads();     /* the other team multiplies them, too */
        }
        struct share behind = left;
        leave_part(behind, plan, part);
        const int tiles = tiles_of(part, TILE_KEYS);

        for (int tile = 0;; tile++) {
            /* The next queries are asked for while the ring's last tiles of this part are there. */
            if (tile == max(tiles - STAGES, 0) && behind.units > 0) {
                next = part_of(shape, plan, behind);
                ask_queries<T, TEAM, HEAD_DIM>(queries, Q, shape, plan, next);
            }
            if (tile == tiles)
                break;
            cp_async_wait<STAGES - 1>();
            if (TEAM == 4)
                async_proxy_fence(); /* wgmma sees this thread's copies */
            sync_team<TEAM>();       /* the team's copies into this stage are there */
            const int first_key = part.first_key + tile * TILE_KEYS + team_key;
            if constexpr (TEAM == 4) {
                attend_together<T, HEAD_DIM>(own, shared.Q, &shared.tile[stage][team], first_key);
            } else {
                const uint32_t to_stage = stage * sizeof shared.tile[0];
                attend<T, HEAD_DIM, TEAM_KEYS>(own, lane_K + to_stage, lane_V + to_stage,
                                               first_key);
            }
            sync_team<TEAM>(); /* the team is done with the stage, which is filled next */
            copy_ahead(ahead, shared.tile[stage], K, V, shape, plan);
            stage = (stage + 1) % STAGES;
        }

        __syncthreads(); /* the item before is merged, whose states lie where these will */
        leave_state(&shared.states, own, warp % TEAM * TEAMS + team);
        __syncthreads(); /* every warp has left its state before any thread merges them */
        const struct open_item item = open_item_of(part, left, plan);
        if (clustered)
            merge_cluster<T, HEAD_DIM, TEAM>(&shared.states, &shared.inbox, out, item);
        else
            leave_item<T, HEAD_DIM, TEAM>(&shared.states, out, item, part.length < 0);
        if (item.pieces.count > 1)
            open[left.unit > 0] = item;
        left = behind;
    }

    /* Pieces count when the ring is empty: a fence waits for all that is on its way. */
    if (open[0].pieces.count + open[1].pieces.count > 0)
        count_pieces<T, HEAD_DIM, TEAM, DECODE_RING_WARPS>(out, counters, open);
}

template <typename T, int HEAD_DIM, int TEAM>
static cudaError_t launch(const struct attention *call)
{
    struct device_limits device;
    const cudaError_t status = current_device(&device);
    if (status != cudaSuccess)
        return status;
    device.memory_speed = memory_speed_of_device();
    return launch_shares<T>(call, ring_plan_of(call, &device), decode_ring<T, HEAD_DIM, TEAM>,
                            sizeof(struct shared_memory<T, HEAD_DIM>));
}

extern "C" cudaError_t attention_decode_ring(const struct attention *call)
{
    return LAUNCH_ROWS(call);
}
