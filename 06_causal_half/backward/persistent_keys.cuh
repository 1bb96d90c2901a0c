/*
 * What backward_persistent (34_backward_persistent.cu) brings and backward_fused keeps: in which
 * order a block goes through the queries of a tile of keys, and what its consumers do with all its
 * tiles. The producer is each rung's own: it brings the queries in that order. So is shared_tiles,
 * with the places that are named here.
 */
#ifndef PERSISTENT_KEYS_CUH
#define PERSISTENT_KEYS_CUH

#include "one_barrier.cuh"

template <class Config>
static __device__ __forceinline__ void put_dQ(struct consumer<Config> &, float *sums,
                                              const float (&dQ)[Config::OWN])
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

/* Whether a tile's queries, from row0 on, see none of the second warpgroup's keys. */
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
    float(&dQ)[Config::OWN] = (float(&)[Config::OWN])kept;
    typename Config::T *dS = c.shared->dS[c.at.stage];
    const int eight = threadIdx.x / WARP * 16 * PANEL + threadIdx.x % WARP * 8;
#pragma unroll
    for (int panel = 0; panel < Config::dS_COLUMNS; panel += PANEL)
#pragma unroll
        for (int i = 0; i < 16 * PANEL; i += 8 * WARP)
            *(uint4 *)&dS[panel * Bc + eight + i] = make_uint4(0, 0, 0, 0);
    async_proxy_fence();
    named_barrier_sync(1, WARPGROUP * CONSUMERS); /* dS is complete, and visible to wgmma */
    start_dQ<Config>(dQ, dS, c.K_columns);
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
            const int place = head % problem.places;
            if (warpgroup == 1 && sees_half<Config, CAUSAL>(own.key0, row0, seq_q, seq_kv)) {
                skip_and_add(c, kept, part_of_warp(c, problem, warpgroup, place, row0));
                left--;
                row0 += Config::Br;
            }
            for (; left > 0; left--, row0 = next_row<Config>(round, row0, seq_q))
                multiply_queries<Config, CAUSAL>(c, kept, problem, warpgroup, place, row0);
        }
        mbarrier_arrive(&shared->keys_empty);
        named_barrier_sync(2, WARPGROUP * CONSUMERS); /* nobody reads dS any more */
        /* where tiles have 64 queries through both places, which lie side by side */
        store_sums(c, shared->dS[0], call, own.kv_head);
    }
}

#endif
