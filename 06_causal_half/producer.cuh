/* A producer warp and its consumers: the roles that producer_warp (06_producer_warp.cu) brings and
 * the next rungs keep. */
#ifndef PRODUCER_CUH
#define PRODUCER_CUH

#include "hopper_tile.cuh"

/*
 * WARPGROUPS consumers of 64 queries each, and the producer. The registers that each may have are
 * those of the launch, 65536 over THREADS, moved from the producer to the consumers. At HEAD_DIM
 * 64, where O is small, there is room for three consumers: each block of K and V then serves 192
 * queries.
 */
template <int HEAD_DIM>
struct config {
    static const int WARPGROUPS = HEAD_DIM == 64 ? 3 : 2;
    static const int BM = WARPGROUPS * WARPGROUP_ROWS;
    static const int THREADS = 128 * (WARPGROUPS + 1);
    static const int STAGES = HEAD_DIM == 64 ? 3 : 2;
    static const int PRODUCER_REGISTERS = HEAD_DIM == 64 ? 32 : 24;
    static const int CONSUMER_REGISTERS = HEAD_DIM == 64 ? 160 : 240;
};

template <int HEAD_DIM>
struct shared_tiles {
    __half Q[config<HEAD_DIM>::BM * HEAD_DIM];
    __half O[config<HEAD_DIM>::BM * HEAD_DIM]; /* for the rungs that store by TMA */
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

/* A rung's kernels for head_dim up to 64 and up to 128, without and with a causal mask. */
struct producer_kernels {
    hopper_kernel *full_64, *causal_64, *full_128, *causal_128;
};

template <int HEAD_DIM>
static cudaError_t launch(hopper_kernel *kernel, const struct attention *call)
{
    struct hopper_problem problem;
    cudaError_t status = describe_hopper_problem(&problem, call, config<HEAD_DIM>::BM);
    if (status != cudaSuccess)
        return status;
    return launch_hopper(kernel, &problem, problem.order.tiles, config<HEAD_DIM>::THREADS,
                         sizeof(struct shared_tiles<HEAD_DIM>), call->stream);
}

static inline cudaError_t launch_with_producer(const struct producer_kernels *kernels,
                                               const struct attention *call)
{
    if (call->head_dim <= 64)
        return launch<64>(call->causal ? kernels->causal_64 : kernels->full_64, call);
    return launch<128>(call->causal ? kernels->causal_128 : kernels->full_128, call);
}

#endif
