/* A block of one tile: what its producer and its consumers share, and what the producer does.
 * producer_warp (06_producer_warp.cu) brings it, the next three rungs keep it. */
#ifndef PRODUCER_CUH
#define PRODUCER_CUH

#include "ring.cuh"

/* The registers that each may have are those of the launch, 65536 over THREADS, moved from the
 * producer to the consumers. */
template <int HEAD_DIM>
struct registers {
    static const int PRODUCER = HEAD_DIM == 64 ? 32 : 24;
    static const int CONSUMER = HEAD_DIM == 64 ? 160 : 240;
};

template <int HEAD_DIM>
struct shared_tiles {
    __half Q[config<HEAD_DIM>::BM * HEAD_DIM];
    struct key_value_ring<HEAD_DIM, config<HEAD_DIM>::STAGES> ring;
    uint64_t Q_full;
};

template <int HEAD_DIM>
static __device__ __forceinline__ void initialise_barriers(struct shared_tiles<HEAD_DIM> *shared)
{
    mbarrier_init(&shared->Q_full, 1);
    initialise_ring(shared->ring, 4 * config<HEAD_DIM>::WARPGROUPS);
    mbarrier_init_fence();
}

/* Orders everything that the consumers will read. By one thread. */
template <int HEAD_DIM>
static __device__ __forceinline__ void produce(struct shared_tiles<HEAD_DIM> *shared,
                                               const struct hopper_problem &problem,
                                               const struct hopper_tile &tile)
{
    load_queries<HEAD_DIM, config<HEAD_DIM>::WARPGROUPS>(shared->Q, &problem.Q, tile.row0,
                                                         tile.head, &shared->Q_full);
    struct ring_position K_at = {0, 0}, V_at = {0, 0};
    for (int block = tile.blocks - 1; block >= 0; block--) {
        produce_keys(shared->ring, K_at, &problem.K, block, tile.kv_head);
        produce_values(shared->ring, V_at, &problem.V, block, tile.kv_head);
    }
}

#endif
