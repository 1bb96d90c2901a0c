/*
 * The steps of a consumer that takes turns with the others: ping_pong (08_ping_pong.cu) brings
 * them, the rungs after it keep them.
 *
 * The tensor cores serve one warpgroup at a time best: its products run back to back while the
 * others compute exponentials. So the right to start products goes around. A warpgroup waits for
 * its turn, starts the scores of the next block and the output of this one, and passes the turn on,
 * before it waits for either. Turns are named barriers, one per warpgroup: its own 128 threads wait
 * there for the 128 of its predecessor to arrive.
 */
#ifndef PING_PONG_CUH
#define PING_PONG_CUH

#include "ring.cuh"
#include "rows.cuh"

template <int WARPGROUPS>
static __device__ __forceinline__ void take_turn(int warpgroup)
{
    named_barrier_sync(1 + warpgroup, 256);
}

template <int WARPGROUPS>
static __device__ __forceinline__ void pass_turn(int warpgroup)
{
    named_barrier_arrive(1 + (warpgroup + 1) % WARPGROUPS, 256);
}

/* The first turn is warpgroup 0's, as if the last had passed it on; at the end there is one turn
 * that nobody takes. */
template <int WARPGROUPS>
static __device__ __forceinline__ void begin_turns(int warpgroup)
{
    if (warpgroup == WARPGROUPS - 1)
        pass_turn<WARPGROUPS>(warpgroup);
}

template <int WARPGROUPS>
static __device__ __forceinline__ void end_turns(int warpgroup)
{
    if (warpgroup == 0)
        take_turn<WARPGROUPS>(warpgroup);
}

/* A tile's first block: its scores and softmax. */
template <int WARPGROUPS, int HEAD_DIM, int STAGES>
static __device__ __forceinline__ void
first_step(struct key_value_ring<HEAD_DIM, STAGES> &ring, struct rows<HEAD_DIM> &rows,
           const __half *Q, struct ring_position &K_at, int warpgroup, bool masked, int first_key,
           const int (&visible)[2], float scale_log2)
{
    float alpha[2];
    mbarrier_wait(&ring.K_full[K_at.stage], K_at.phase);
    take_turn<WARPGROUPS>(warpgroup);
    start_scores<HEAD_DIM>(rows.S, Q, ring.K[K_at.stage]);
    pass_turn<WARPGROUPS>(warpgroup);
    wgmma_wait<0>();
    wgmma_hold(rows.S);
    if (threadIdx.x % 32 == 0)
        mbarrier_arrive(&ring.K_empty[K_at.stage]);
    if (masked)
        mask_scores(rows.S, first_key, visible);
    online_softmax(rows.S, rows.m, rows.l, alpha, scale_log2);
    pack_rows(rows.P, rows.S);
    advance<STAGES>(K_at);
}

/*
 * One block in two halves. The first starts its scores and the output of the block before, in this
 * warpgroup's turn. The second waits for both: O is complete up to the block before when it
 * returns, S holds the new block's P, and alpha the factor for O that it asks for.
 */
template <int WARPGROUPS, int HEAD_DIM, int STAGES>
static __device__ __forceinline__ void
start_products(struct key_value_ring<HEAD_DIM, STAGES> &ring, struct rows<HEAD_DIM> &rows,
               const __half *Q, const struct ring_position &K_at, const struct ring_position &V_at,
               int warpgroup)
{
    mbarrier_wait(&ring.K_full[K_at.stage], K_at.phase);
    take_turn<WARPGROUPS>(warpgroup);
    start_scores<HEAD_DIM>(rows.S, Q, ring.K[K_at.stage]);
    mbarrier_wait(&ring.V_full[V_at.stage], V_at.phase);
    start_output<HEAD_DIM>(rows.O, rows.P, ring.V[V_at.stage]);
    pass_turn<WARPGROUPS>(warpgroup);
}

template <int HEAD_DIM, int STAGES>
static __device__ __forceinline__ void
finish_products(struct key_value_ring<HEAD_DIM, STAGES> &ring, struct rows<HEAD_DIM> &rows,
                struct ring_position &K_at, struct ring_position &V_at, bool masked, int first_key,
                const int (&visible)[2], float scale_log2, float (&alpha)[2])
{
    const int lane = threadIdx.x % 32;

    wgmma_wait<1>();
    wgmma_hold(rows.S);
    if (lane == 0)
        mbarrier_arrive(&ring.K_empty[K_at.stage]);
    if (masked)
        mask_scores(rows.S, first_key, visible);
    online_softmax(rows.S, rows.m, rows.l, alpha, scale_log2);

    wgmma_wait<0>();
    wgmma_hold(rows.O);
    if (lane == 0)
        mbarrier_arrive(&ring.V_empty[V_at.stage]);
    advance<STAGES>(K_at);
    advance<STAGES>(V_at);
}

/* Both, as a step inside a tile. */
template <int WARPGROUPS, int HEAD_DIM, int STAGES>
static __device__ __forceinline__ void
step(struct key_value_ring<HEAD_DIM, STAGES> &ring, struct rows<HEAD_DIM> &rows, const __half *Q,
     struct ring_position &K_at, struct ring_position &V_at, int warpgroup, bool masked,
     int first_key, const int (&visible)[2], float scale_log2)
{
    float alpha[2];
    start_products<WARPGROUPS>(ring, rows, Q, K_at, V_at, warpgroup);
    finish_products(ring, rows, K_at, V_at, masked, first_key, visible, scale_log2, alpha);
    scale_rows(rows.O, alpha);
    pack_rows(rows.P, rows.S);
}

/* A tile's last output. */
template <int HEAD_DIM, int STAGES>
static __device__ __forceinline__ void last_step(struct key_value_ring<HEAD_DIM, STAGES> &ring,
                                                 struct rows<HEAD_DIM> &rows,
                                                 struct ring_position &V_at)
{
    mbarrier_wait(&ring.V_full[V_at.stage], V_at.phase);
    start_output<HEAD_DIM>(rows.O, rows.P, ring.V[V_at.stage]);
    wgmma_wait<0>();
    wgmma_hold(rows.O);
    advance<STAGES>(V_at);
}

#endif
