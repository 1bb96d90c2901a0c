/* How a block is divided into a producer and its consumers, and the ring of places between them:
 * what producer_warp (06_producer_warp.cu) brings and the next rungs keep. */
#ifndef RING_CUH
#define RING_CUH

#include "hopper_tile.cuh"

/*
 * WARPGROUPS consumers of 64 queries each, and the producer. At HEAD_DIM 64, where O is small,
 * there is room for three consumers: each block of K and V then serves 192 queries.
 */
template <int HEAD_DIM, int CONSUMERS = HEAD_DIM == 64 ? 3 : 2>
struct config {
    static const int WARPGROUPS = CONSUMERS;
    static const int BM = WARPGROUPS * WARPGROUP_ROWS;
    static const int THREADS = 128 * (WARPGROUPS + 1);
    static const int STAGES = HEAD_DIM == 64 ? 3 : 2;
};

/*
 * Every place has two barriers. `full` completes when its bytes have arrived: consumers wait for
 * it. `empty` completes when the last consumer warp is done reading: the producer waits for it
 * before it fills the place again.
 */
template <int HEAD_DIM, int STAGES>
struct key_value_ring {
    __half K[STAGES][BN * HEAD_DIM];
    __half V[STAGES][BN * HEAD_DIM];
    uint64_t K_full[STAGES], K_empty[STAGES], V_full[STAGES], V_empty[STAGES];
};

/*
 * The place in turn, and the parity of its phase: it flips when all places have been gone through
 * once. Consumers wait for `full` with it; the producer waits for `empty` with the other one, that
 * of the phase before, so that new places count as empty.
 */
struct ring_position {
    int stage, phase;
};

template <int STAGES>
static __device__ __forceinline__ void advance(struct ring_position &at)
{
    if (++at.stage == STAGES) {
        at.stage = 0;
        at.phase ^= 1;
    }
}

template <int HEAD_DIM, int STAGES>
static __device__ __forceinline__ void
initialise_ring(struct key_value_ring<HEAD_DIM, STAGES> &ring, int consumer_warps)
{
    for (int stage = 0; stage < STAGES; stage++) {
        mbarrier_init(&ring.K_full[stage], 1);
        mbarrier_init(&ring.K_empty[stage], consumer_warps);
        mbarrier_init(&ring.V_full[stage], 1);
        mbarrier_init(&ring.V_empty[stage], consumer_warps);
    }
}

/* The producer's part: the next block of keys, or of values, as soon as there is a place for it. */
template <int HEAD_DIM, int STAGES>
static __device__ __forceinline__ void produce_keys(struct key_value_ring<HEAD_DIM, STAGES> &ring,
                                                    struct ring_position &at,
                                                    const CUtensorMap *map, int block, int kv_head)
{
    mbarrier_wait(&ring.K_empty[at.stage], at.phase ^ 1);
    load_block<HEAD_DIM>(ring.K[at.stage], map, block, kv_head, &ring.K_full[at.stage]);
    advance<STAGES>(at);
}

template <int HEAD_DIM, int STAGES>
static __device__ __forceinline__ void
produce_values(struct key_value_ring<HEAD_DIM, STAGES> &ring, struct ring_position &at,
               const CUtensorMap *map, int block, int kv_head)
{
    mbarrier_wait(&ring.V_empty[at.stage], at.phase ^ 1);
    load_block<HEAD_DIM>(ring.V[at.stage], map, block, kv_head, &ring.V_full[at.stage]);
    advance<STAGES>(at);
}

#endif
