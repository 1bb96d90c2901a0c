/*
 * Prints the last line of `make doctor`: what the runtime sees, after running one kernel.
 *
 * The exit status is 0 when the kernel gave the right answer, and 2 when an environment variable is
 * wrong or nothing can be printed. Otherwise it is 3, and a line says what to do.
 */
#include "device/backend.h"
#include "harness/output.h"

#include <stdio.h>

__global__ void ask(int *answer)
{
    *answer = 42;
}

static int fail(const char *what, cudaError_t error)
{
    fprintf(
        stderr,
        "%s: %s\n"
        "  no CUDA-capable device: there is no GPU or no driver; run on the CPU with BACKEND=cpu\n"
        "  driver version insufficient: update the NVIDIA driver, or use an older CUDA Toolkit\n"
        "  no kernel image: built for another architecture; `make clean`, then ARCH=sm_75 (a T4), "
        "sm_80, "
        "...\n",
        what, cudaGetErrorString(error));
    return 3;
}

int main(void)
{
    int devices = 0, driver = 0, runtime = 0;
    cudaDeviceProp properties;
    if (!output_is_open())
        return 2;
    if (*backend_complaint()) {
        fprintf(stderr, "%s\n", backend_complaint());
        return 2;
    }
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess || devices == 0)
        return fail("no device", status != cudaSuccess ? status : cudaErrorNoDevice);
    if ((status = cudaGetDeviceProperties(&properties, 0)) != cudaSuccess)
        return fail("the device does not answer", status);
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    printf("device:       %s, sm_%d, %d multiprocessors, %.1f GiB\n", properties.name,
           backend_architecture(), properties.multiProcessorCount,
           (double)properties.totalGlobalMem / (1 << 30));
    printf("CUDA:         driver %d.%d, runtime %d.%d\n", driver / 1000, driver % 1000 / 10,
           runtime / 1000, runtime % 1000 / 10);

    int *answer = nullptr, host = 0;
    if ((status = cudaMalloc((void **)&answer, sizeof *answer)) != cudaSuccess)
        return fail("device memory cannot be allocated", status);
    ask<<<1, 1>>>(answer);
    if ((status = cudaGetLastError()) != cudaSuccess ||
        (status = cudaDeviceSynchronize()) != cudaSuccess ||
        (status = cudaMemcpy(&host, answer, sizeof host, cudaMemcpyDeviceToHost)) != cudaSuccess)
        return fail("a kernel does not run", status);
    cudaFree(answer);
    if (host != 42)
        return fail("a kernel ran and gave a wrong answer", cudaErrorUnknown);
    printf("kernel:       ran and gave the right answer\n");
    return output_arrived(stdout) ? 0 : 2;
}
