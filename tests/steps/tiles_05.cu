/*
 * These are the tiled kernels of step 05 at tiles that its ladder does not use: the same sources
 * with other template arguments, and with a device that gives a block 64 KB of shared memory, as an
 * sm_75 does.
 */
#include "05_flash_v2/05_step.h"
#include "device/device.h"

static cudaError_t device_of_sm_75(struct device_limits *limits)
{
    limits->architecture = 75;
    limits->multiprocessors = 1;
    limits->shared_bytes = 64 * 1024;
    return cudaSuccess;
}

#define current_device(limits) device_of_sm_75(limits)
#define attention_flash_v2_base_2 attention_flash_v2_base_2_64_kb
#include "05_flash_v2/limit/6_flash_v2_base_2.cu"

#define attention_flash_v2 attention_flash_v2_16x16
#include "05_flash_v2/2_flash_v2.cu"

extern "C" cudaError_t attention_flash_v2_16x32(const struct attention *call)
{
    return launch<16, 32>(call);
}

extern "C" cudaError_t attention_flash_v2_32x8(const struct attention *call)
{
    return launch<32, 8>(call);
}
