/* A block of one tile: a producer and its consumers, what they share, and what the producer does.
 * producer_warp (09_producer_warp.cu) brings it, the next three rungs keep it. */
#ifndef PRODUCER_CUH
#define PRODUCER_CUH

#include "steps.cuh"

/*
 * Every place has two barriers. `full` completes when its bytes have arrived: consumers wait for
 * it. `empty` completes when the last consumer warp is done reading: the producer waits for it
 * before it fills the place again. (Aligned as TMA wants its boxes; so is what lies behind it.)
 */
template <class Config>
struct __align__(1024) shared_tiles
{
    typename Config::T Q[Config::Br * Config::HEAD_DIM];
    typename Config::T K[Config::STAGES][Bc * Config::HEAD_DIM];
    typename Config::T V[Config::STAGES][Bc * Config::HEAD_DIM];
    uint64_t Q_full, K_full[Config::STAGES], V_full[Config::STAGES];
    uint64_t K_empty[Config::STAGES], V_empty[Config::STAGES];
};

/* By one thread. */
template <class Config>
static __device__ __forceinline__ void initialise_barriers(struct shared_tiles<Config> *shared)
{
    mbarrier_init(&shared->Q_full, 1);
    for (int stage = 0; stage < Config::STAGES; stage++) {
        mbarrier_init(&shared->K_full[stage], 1);
        mbarrier_init(&shared->V_full[stage], 1);
        mbarrier_init(&shared->K_empty[stage], 4 * Config::WARPGROUPS);
        mbarrier_init(&shared->V_empty[stage], 4 * Config::WARPGROUPS);
    }
    mbarrier_init_fence();
}

/*
 * Requests all that the consumers will read, by one thread. For use n = 0, 1, ... of a place the
 * consumers wait for phase n of `full`; before it the producer waits for phase n - 1 of `empty`, of
 * the other parity. On a new barrier phase -1 counts as over: new places are empty.
 */
template <class Config>
static __device__ __forceinline__ void produce(struct shared_tiles<Config> *shared,
                                               const struct hopper_problem &problem,
                                               const struct hopper_tile &tile)
{
    struct ring_position K_at = {0, 0}, V_at = {0, 0};
    load_queries<Config>(shared->Q, problem, tile, &shared->Q_full);
    for (int block = tile.blocks - 1; block >= 0; block--) {
        mbarrier_wait(&shared->K_empty[K_at.stage], K_at.phase ^ 1);
        load_block<Config>(shared->K[K_at.stage], &problem.maps.K, block, tile.kv_head,
                           &shared->K_full[K_at.stage]);
        advance<Config::STAGES>(K_at);
        mbarrier_wait(&shared->V_empty[V_at.stage], V_at.phase ^ 1);
        load_block<Config>(shared->V[V_at.stage], &problem.maps.V, block, tile.kv_head,
                           &shared->V_full[V_at.stage]);
        advance<Config::STAGES>(V_at);
    }
}

#endif
