/*
 * These are the tiled kernels of step 04 at tiles that its ladder does not use: the same sources
 * with other template arguments, and with a device that gives a block 64 KB of shared memory, as an
 * sm_75 does.
 */
#include "04_flash_v1/04_step.h"
#include "device/device.h"

static cudaError_t device_of_sm_75(struct device_limits *limits)
{
    limits->architecture = 75;
    limits->multiprocessors = 1;
    limits->shared_bytes = 64 * 1024;
    return cudaSuccess;
}

#define current_device(limits) device_of_sm_75(limits)
#define attention_flash_v1_async attention_flash_v1_async_64_kb
#include "04_flash_v1/limit/14_flash_v1_async.cu"

#define attention_flash_v1 attention_flash_v1_16x16
#include "04_flash_v1/07_flash_v1.cu"

template <int Br, int Bc>
static cudaError_t run_tiles(const struct attention *call)
{
    const cudaError_t status = attention_initial_state(call);
    return status == cudaSuccess ? launch<Br, Bc>(call) : status;
}

extern "C" cudaError_t attention_flash_v1_16x32(const struct attention *call)
{
    return run_tiles<16, 32>(call);
}

extern "C" cudaError_t attention_flash_v1_32x8(const struct attention *call)
{
    return run_tiles<32, 8>(call);
}
