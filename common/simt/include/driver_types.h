/* These are the types of the CUDA runtime's host interface, as far as the CPU backend has them. */
#pragma once
#define __DRIVER_TYPES_H__ /* NVIDIA's helper_cuda.h asks whether this header was included */

#include <stddef.h>
#include <vector_types.h>

enum cudaError {
#define SIMT_ERROR(name, code, description) name = code,
#include <simt/error_codes.def>
#undef SIMT_ERROR
};
typedef enum cudaError cudaError_t;

typedef struct simt_stream *cudaStream_t;
typedef struct simt_event *cudaEvent_t;
typedef struct simt_pool *cudaMemPool_t;
typedef void (*cudaHostFn_t)(void *argument);
typedef void (*cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status, void *argument);

#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)
#define cudaCpuDeviceId ((int)-1)
#define cudaInvalidDeviceId ((int)-2)

/* Flags of calls are macros, as in CUDA, because programs ask #ifdef, and pass 0 for a stream. */
#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01
#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02
#define cudaEventInterprocess 0x04
#define cudaEventRecordDefault 0x00
#define cudaEventWaitDefault 0x00
#define cudaHostAllocDefault 0x00
#define cudaHostAllocPortable 0x01
#define cudaHostAllocMapped 0x02
#define cudaHostAllocWriteCombined 0x04
#define cudaHostRegisterDefault 0x00
#define cudaHostRegisterPortable 0x01
#define cudaHostRegisterMapped 0x02
#define cudaMemAttachGlobal 0x01
#define cudaMemAttachHost 0x02
#define cudaMemAttachSingle 0x04
#define cudaDeviceScheduleAuto 0x00
#define cudaDeviceScheduleSpin 0x01
#define cudaDeviceScheduleYield 0x02
#define cudaDeviceScheduleBlockingSync 0x04
#define cudaDeviceBlockingSync 0x04 /* its old name */
#define cudaDeviceMapHost 0x08
#define cudaDeviceLmemResizeToMax 0x10
#define cudaOccupancyDefault 0x00
#define cudaEnableDefault 0x00
#define cudaEnableLegacyStream 0x01
#define cudaEnablePerThreadDefaultStream 0x02

/* clang-format off */
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice,
                      cudaMemcpyDefault };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound,
                                       cudaDriverEntryPointVersionNotSufficent };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout };
enum cudaSharedCarveout { cudaSharedmemCarveoutDefault = -1, cudaSharedmemCarveoutMaxL1, cudaSharedmemCarveoutMaxShared = 100 };
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1, cudaFuncCachePreferEqual };
enum cudaSharedMemConfig { cudaSharedMemBankSizeDefault, cudaSharedMemBankSizeFourByte, cudaSharedMemBankSizeEightByte };
enum cudaMemPoolAttr {
    cudaMemPoolReuseFollowEventDependencies = 1, cudaMemPoolReuseAllowOpportunistic, cudaMemPoolReuseAllowInternalDependencies,
    cudaMemPoolAttrReleaseThreshold, cudaMemPoolAttrReservedMemCurrent, cudaMemPoolAttrReservedMemHigh, cudaMemPoolAttrUsedMemCurrent,
    cudaMemPoolAttrUsedMemHigh
};
enum cudaDeviceP2PAttr { cudaDevP2PAttrPerformanceRank = 1, cudaDevP2PAttrAccessSupported, cudaDevP2PAttrNativeAtomicSupported,
                         cudaDevP2PAttrCudaArrayAccessSupported };
enum cudaLimit { cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize, cudaLimitDevRuntimeSyncDepth,
                 cudaLimitDevRuntimePendingLaunchCount, cudaLimitMaxL2FetchGranularity, cudaLimitPersistingL2CacheSize };
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged };
enum cudaMemoryAdvise { cudaMemAdviseSetReadMostly = 1, cudaMemAdviseUnsetReadMostly, cudaMemAdviseSetPreferredLocation,
                        cudaMemAdviseUnsetPreferredLocation, cudaMemAdviseSetAccessedBy, cudaMemAdviseUnsetAccessedBy };
/* Since CUDA 13 this says where managed memory is to lie, in place of a device's number. */
enum cudaMemLocationType { cudaMemLocationTypeInvalid, cudaMemLocationTypeDevice, cudaMemLocationTypeHost,
                           cudaMemLocationTypeHostNuma, cudaMemLocationTypeHostNumaCurrent };
enum cudaComputeMode { cudaComputeModeDefault, cudaComputeModeExclusive, cudaComputeModeProhibited, cudaComputeModeExclusiveProcess };
enum cudaLaunchAttributeID { cudaLaunchAttributeIgnore, cudaLaunchAttributeCooperative = 2,
                             cudaLaunchAttributeClusterDimension = 4, cudaLaunchAttributePriority = 8 };
/* clang-format on */

struct cudaFuncAttributes {
    size_t sharedSizeBytes; /* static shared memory */
    size_t constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA,
        maxDynamicSharedSizeBytes, preferredShmemCarveout;
};

struct cudaPointerAttributes {
    enum cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
};

struct cudaMemLocation {
    enum cudaMemLocationType type;
    int id;
};

typedef struct cudaPitchedPtr {
    void *ptr;
    size_t pitch, xsize, ysize;
} cudaPitchedPtr;

typedef struct cudaExtent {
    size_t width, height, depth;
} cudaExtent;

SIMT_MAKE(cudaPitchedPtr, (void *ptr, size_t pitch, size_t x, size_t y), ptr, pitch, x, y)
SIMT_MAKE(cudaExtent, (size_t width, size_t height, size_t depth), width, height, depth)

enum cudaDeviceAttr {
#define SIMT_PROPERTY(type, name, ...)
#define SIMT_ATTRIBUTE(name, code, value) name = code,
#include <simt/device_properties.def>
};

struct cudaDeviceProp {
#define SIMT_PROPERTY(type, name, ...) type name;
#define SIMT_ATTRIBUTE(name, code, value)
#include <simt/device_properties.def>
    /* 0: there is no such thing here */
    int maxTexture1D, maxTexture2D[2], maxTexture3D[3], maxTexture1DLayered[2],
        maxTexture2DLayered[3], kernelExecTimeoutEnabled, integrated, computeMode, ECCEnabled,
        pciBusID, pciDeviceID, pciDomainID, tccDriver, persistingL2CacheMaxSize, isMultiGpuBoard,
        multiGpuBoardGroupID, hostNativeAtomicSupported, pageableMemoryAccess,
        pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost,
        canUseHostPointerForRegisteredMem, computePreemptionSupported, cooperativeMultiDeviceLaunch,
        accessPolicyMaxWindowSize;
    size_t surfaceAlignment, texturePitchAlignment;
};

typedef union cudaLaunchAttributeValue {
    char pad[64];
    int cooperative;
    uint3 clusterDim;
    int priority;
} cudaLaunchAttributeValue;

typedef struct cudaLaunchAttribute {
    enum cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
} cudaLaunchAttribute;

typedef struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned int numAttrs;
} cudaLaunchConfig_t;

/* There are no graphs, textures and surfaces: using one of these types says so at compile time. */
#define SIMT_UNSUPPORTED(what)                                                                     \
    __attribute__((unavailable(what " are not supported by the CPU backend (simt)")))
typedef SIMT_UNSUPPORTED("CUDA graphs") struct simt_graph *cudaGraph_t, *cudaGraphExec_t,
    *cudaGraphNode_t;
typedef SIMT_UNSUPPORTED("textures") unsigned long long cudaTextureObject_t;
typedef SIMT_UNSUPPORTED("surfaces") unsigned long long cudaSurfaceObject_t;
typedef SIMT_UNSUPPORTED("CUDA arrays (textures and surfaces)") struct simt_array cudaArray,
    *cudaArray_t, *cudaMipmappedArray_t, cudaChannelFormatDesc;
typedef SIMT_UNSUPPORTED("L2 access policies") struct simt_access_policy cudaAccessPolicyWindow;
typedef SIMT_UNSUPPORTED("several devices") struct simt_memory_access cudaMemAccessDesc;
typedef SIMT_UNSUPPORTED("memory pools of one's own") struct simt_pool_properties cudaMemPoolProps;
typedef SIMT_UNSUPPORTED("3D copies") struct simt_copy_3d cudaMemcpy3DParms;
typedef SIMT_UNSUPPORTED("handles shared between processes") struct simt_handle cudaIpcMemHandle_t,
    *cudaExternalMemory_t;
