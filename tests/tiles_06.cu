/* The last rung of step 06 with pairs of blocks however few the keys are. */
#define attention_multicast attention_multicast_of_long_sequences
#include "06_causal_half/19_multicast.cu"

template <typename T>
static cudaError_t launch_pairs(const struct attention *call)
{
    return call->causal ? launch<T, 128, true, 0>(call) : launch<T, 128, false, 0>(call);
}

extern "C" cudaError_t attention_multicast_pairs(const struct attention *call)
{
    return call->type == TENSOR_BF16 ? launch_pairs<__nv_bfloat16>(call)
                                     : launch_pairs<__half>(call);
}
