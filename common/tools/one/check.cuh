/* The checks share this: inputs, device memory, and the comparison with a reference. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return;
    printf("FAIL: %s: %s%s%s\n", what, cudaGetErrorString(status), *refusal() ? ": " : "",
           refusal());
    exit(1);
}

/* Ends the program with status 3 where the kernel cannot run. */
static void need_architecture(const char *needed)
{
    const int device = backend_architecture(), least = *needed ? atoi(needed + strlen("sm_")) : 0;
    const bool alone = *needed && needed[strlen(needed) - 1] == 'a';
    if (device > 0 && device >= least && (!alone || device == least))
        return;
    printf("SKIPPED: it needs %s, and this device is sm_%d\n", *needed ? needed : "a device",
           device);
    exit(3);
}

/* Returns count numbers in -1 .. 1, the same in every run. The caller frees them. */
static float *numbers(size_t count, unsigned seed)
{
    float *x = (float *)malloc(count * sizeof *x);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (1 << 23) - 1.0f;
    }
    return x;
}

/* Allocates device memory and copies `bytes` bytes from the host, or fills it with NaN when `host`
 * is null. */
static void *on_device(const void *host, size_t bytes)
{
    void *device;
    must(cudaMalloc(&device, bytes), "cudaMalloc");
    must(host ? cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice)
              : cudaMemset(device, 0xff, bytes),
         "filling device memory");
    return device;
}

static void *on_host(const void *device, size_t bytes)
{
    void *host = malloc(bytes);
    must(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "copying the result");
    return host;
}

static double *doubles(size_t count)
{
    return (double *)malloc(count * sizeof(double));
}

/* Prints the first of `count` elements, from `first` on, that is wrong; a NaN is, and a value that
 * should be infinite and is not. Returns whether there is one. */
static bool wrong(const char *name, enum tensor_type type, const void *data, size_t first,
                  size_t count, const double *value, const double *scale, double bound)
{
    for (size_t i = 0; i < count; i++) {
        const double element = tensor_element(data, type, first + i);
        if (element == value[i] || fabs(element - value[i]) <= bound * scale[i])
            continue;
        printf("FAIL: %s[%zu] is %.9g, not %.9g within %.2g\n", name, first + i, element, value[i],
               bound * scale[i]);
        return true;
    }
    return false;
}
