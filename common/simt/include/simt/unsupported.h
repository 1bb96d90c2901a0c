/* CUDA that the CPU backend does not have: each name says so when it is used. */
#pragma once

#include <driver_types.h>

#define SIMT_UNSUPPORTED_CALL(name, what)                                                          \
    template <class... T>                                                                          \
    SIMT_UNSUPPORTED(what)                                                                         \
    cudaError_t name(T...)

SIMT_UNSUPPORTED_CALL(cudaGraphCreate, "CUDA graphs");
SIMT_UNSUPPORTED_CALL(cudaGraphInstantiate, "CUDA graphs");
SIMT_UNSUPPORTED_CALL(cudaGraphLaunch, "CUDA graphs");
SIMT_UNSUPPORTED_CALL(cudaStreamBeginCapture, "CUDA graphs");
SIMT_UNSUPPORTED_CALL(cudaStreamEndCapture, "CUDA graphs");
SIMT_UNSUPPORTED_CALL(cudaCreateTextureObject, "textures");
SIMT_UNSUPPORTED_CALL(cudaCreateSurfaceObject, "surfaces");
SIMT_UNSUPPORTED_CALL(cudaMallocArray, "CUDA arrays (textures and surfaces)");
SIMT_UNSUPPORTED_CALL(cudaMalloc3DArray, "CUDA arrays (textures and surfaces)");
SIMT_UNSUPPORTED_CALL(cudaMemcpy3D, "3D copies");
SIMT_UNSUPPORTED_CALL(cudaIpcGetMemHandle, "handles shared between processes");
#undef SIMT_UNSUPPORTED_CALL

/* As in CUDA from compute capability 7.0 on. "...": a program's own overload is a better match. */
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

template <class T, int dimensions = 1, int mode = 0>
class SIMT_UNSUPPORTED("textures") texture;
template <class T, int dimensions = 1>
class SIMT_UNSUPPORTED("surfaces") surface;

/* Many programs include <cuda_fp8.h> and use none of it. */
using __nv_fp8_storage_t SIMT_UNSUPPORTED("8-bit floating-point numbers") = unsigned char;
using __nv_fp8_e4m3 SIMT_UNSUPPORTED("8-bit floating-point numbers") = unsigned char;
using __nv_fp8_e5m2 SIMT_UNSUPPORTED("8-bit floating-point numbers") = unsigned char;
