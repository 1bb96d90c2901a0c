/* The CPU backend does not have this part of CUDA: each name says so when it is used. */
#pragma once

#include <driver_types.h>

/* "..." makes a program's own overload a better match. */
SIMT_UNSUPPORTED("CUDA graphs")
cudaError_t cudaGraphCreate(...), cudaGraphInstantiate(...), cudaGraphLaunch(...),
    cudaStreamBeginCapture(...), cudaStreamEndCapture(...);
SIMT_UNSUPPORTED("textures") cudaError_t cudaCreateTextureObject(...);
SIMT_UNSUPPORTED("surfaces") cudaError_t cudaCreateSurfaceObject(...);
SIMT_UNSUPPORTED("CUDA arrays (textures and surfaces)")
cudaError_t cudaMallocArray(...), cudaMalloc3DArray(...);
SIMT_UNSUPPORTED("3D copies") cudaError_t cudaMemcpy3D(...);
SIMT_UNSUPPORTED("handles shared between processes") cudaError_t cudaIpcGetMemHandle(...);

/* These are missing as in CUDA from compute capability 7.0 on. */
#define SIMT_WITHOUT_MASK(name)                                                                    \
    SIMT_UNSUPPORTED("shuffles and votes without a mask (" #name "_sync has one)") int name(...);
SIMT_WITHOUT_MASK(__shfl)
SIMT_WITHOUT_MASK(__shfl_up)
SIMT_WITHOUT_MASK(__shfl_down)
SIMT_WITHOUT_MASK(__shfl_xor)
SIMT_WITHOUT_MASK(__ballot)
SIMT_WITHOUT_MASK(__any)
SIMT_WITHOUT_MASK(__all)
#undef SIMT_WITHOUT_MASK

template <class T, int dimensions = 1, int mode = 0> class SIMT_UNSUPPORTED("textures") texture;
template <class T, int dimensions = 1> class SIMT_UNSUPPORTED("surfaces") surface;

/* Many programs include <cuda_fp8.h> and use none of it. */
typedef SIMT_UNSUPPORTED("8-bit floating-point numbers") unsigned char __nv_fp8_storage_t,
    __nv_fp8_e4m3, __nv_fp8_e5m2;
