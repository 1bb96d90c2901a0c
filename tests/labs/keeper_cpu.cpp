#include "keeper.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static cudaStream_t given;
static void *const *closed_memory;
static const size_t *closed_bytes;
static int closed_count, strays;

/* Whole pages: the backend puts no two allocations on one. */
static void protect(int access)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < closed_count; i++) {
        const uintptr_t begin = (uintptr_t)closed_memory[i] / page * page;
        const uintptr_t end =
            ((uintptr_t)closed_memory[i] + closed_bytes[i] + page - 1) / page * page;
        if (closed_bytes[i] > 0)
            mprotect((void *)begin, end - begin, access);
    }
}

extern "C" void keeper_begin(cudaStream_t stream, void *const *memory, const size_t *bytes,
                             int count)
{
    given = stream;
    closed_memory = memory;
    closed_bytes = bytes;
    closed_count = count;
    strays = 0;
    protect(PROT_NONE);
}

extern "C" int keeper_end(void)
{
    protect(PROT_READ | PROT_WRITE);
    closed_count = 0;
    return strays;
}

/* The linker's --wrap leads every launch and every cudaMemsetAsync through here. */
extern "C" cudaError_t __real_simt_run(const struct simt_launch *launch);
extern "C" cudaError_t __wrap_simt_run(const struct simt_launch *launch)
{
    strays += launch->stream != given;
    protect(PROT_READ | PROT_WRITE);
    const cudaError_t status = __real_simt_run(launch);
    protect(PROT_NONE);
    return status;
}

extern "C" cudaError_t __real_cudaMemsetAsync(void *pointer, int value, size_t bytes,
                                              cudaStream_t stream);
extern "C" cudaError_t __wrap_cudaMemsetAsync(void *pointer, int value, size_t bytes,
                                              cudaStream_t stream)
{
    strays += stream != given;
    protect(PROT_READ | PROT_WRITE);
    const cudaError_t status = __real_cudaMemsetAsync(pointer, value, bytes, stream);
    protect(PROT_NONE);
    return status;
}
