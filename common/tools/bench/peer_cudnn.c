/* cuDNN's softmax is a row of a table of softmax kernels. */
#include "peers.h"

#include "harness/refusal.h"

#include <cudnn.h>
#include <stdio.h>

static cudnnHandle_t handle; /* made at the first call */
static cudnnTensorDescriptor_t shape;

static cudaError_t cudnn_softmax(const float *input, float *output, int rows, int cols,
                                 cudaStream_t stream)
{
    const float one = 1.0f, zero = 0.0f;
    if (!handle && (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS ||
                    cudnnCreateTensorDescriptor(&shape) != CUDNN_STATUS_SUCCESS))
        return refuse(cudaErrorNotSupported, "cuDNN could not be started");
    if (cudnnSetStream(handle, stream) != CUDNN_STATUS_SUCCESS ||
        cudnnSetTensor4dDescriptor(shape, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, rows, cols, 1, 1) !=
            CUDNN_STATUS_SUCCESS ||
        cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE, &one,
                            shape, input, &zero, shape, output) != CUDNN_STATUS_SUCCESS)
        return refuse(cudaErrorNotSupported, "cuDNN does not take this shape");
    return cudaGetLastError();
}

const struct softmax_kernel cudnn_kernels[] = {
    {.about.name = "cudnn", .about.idea = "cudnnSoftmaxForward, accurate", .launch = cudnn_softmax},
    {.about.name = NULL},
};

const char *cudnn_version(void)
{
    static char version[32];
    const size_t number = cudnnGetVersion();
    snprintf(version, sizeof version, "cuDNN %zu.%zu.%zu", number / 10000, number % 10000 / 100,
             number % 100);
    return version;
}
