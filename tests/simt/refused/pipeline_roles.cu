// says: cuda::pipelines whose threads have roles are not supported by the CPU backend
#include <cooperative_groups.h>
#include <cuda/pipeline>

__global__ void copy(int producers)
{
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    const auto role =
        threadIdx.x < producers ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state, role);
    pipe.producer_acquire();
}
