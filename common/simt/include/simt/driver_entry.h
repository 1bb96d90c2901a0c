/* How a program that does not link libcuda finds the driver's functions. Included by
 * cuda_runtime_api.h. */
#pragma once

#include <driver_types.h>

#ifdef __cplusplus
extern "C" {
#define SIMT_DEFAULT_NULL = nullptr
#else
#define SIMT_DEFAULT_NULL
#endif

#define cudaEnableDefault 0x0
#define cudaEnableLegacyStream 0x1
#define cudaEnablePerThreadDefaultStream 0x2

enum cudaDriverEntryPointQueryResult {
    cudaDriverEntryPointSuccess = 0,
    cudaDriverEntryPointSymbolNotFound = 1,
    cudaDriverEntryPointVersionNotSufficent = 2
};

/* The only driver function that there is: cuTensorMapEncodeTiled (cuda.h). */
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *result SIMT_DEFAULT_NULL);
cudaError_t
cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version,
                                 unsigned long long flags,
                                 enum cudaDriverEntryPointQueryResult *result SIMT_DEFAULT_NULL);

#undef SIMT_DEFAULT_NULL

#ifdef __cplusplus
}
#endif
