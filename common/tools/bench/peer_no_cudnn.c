/* This replaces peer_cudnn.c where cuDNN's header was not found: its row says so. */
#include "peers.h"

#include "harness/refusal.h"

static cudaError_t no_cudnn(const float *input, float *output, int rows, int cols,
                            cudaStream_t stream)
{
    (void)input, (void)output, (void)rows, (void)cols, (void)stream;
    return refuse(cudaErrorNotSupported, "cuDNN was not found when the benchmark was built");
}

const struct softmax_kernel cudnn_kernels[] = {
    {.about.name = "cudnn", .about.idea = "cudnnSoftmaxForward, accurate", .launch = no_cudnn},
    {.about.name = NULL},
};

const char *cudnn_version(void)
{
    return "no cuDNN";
}
