#include "deferred_launches.h"

#include <cstdlib>
#include <cstring>
#include <vector>

struct Deferred {
    struct simt_launch launch; /* without a function it is a memset */
    void *pointer;
    int value;
    size_t bytes;
    cudaStream_t stream;
};

static std::vector<Deferred> deferred;
static bool deferring, running;

/* No kernel of the project starts as many for a problem. */
static const size_t most = 100000;

extern "C" void defer_launches(void)
{
    deferring = true;
}

/* The linker's --wrap leads every launch and every cudaMemsetAsync through here. */
extern "C" cudaError_t __real_simt_run(const struct simt_launch *launch);
extern "C" cudaError_t __wrap_simt_run(const struct simt_launch *launch)
{
    if (running)
        return cudaErrorNotSupported; /* a kernel calls it */
    if (!deferring)
        return __real_simt_run(launch);
    if (deferred.size() == most)
        return cudaErrorLaunchOutOfResources;
    const size_t alignment = 256; /* for tensor maps, and whatever else is passed by value */
    void *arguments = aligned_alloc(alignment, launch->argument_bytes + alignment -
                                                   launch->argument_bytes % alignment);
    memcpy(arguments, launch->arguments, launch->argument_bytes);
    deferred.push_back({*launch, nullptr, 0, 0, launch->stream});
    deferred.back().launch.arguments = arguments;
    return cudaSuccess;
}

extern "C" cudaError_t __real_cudaMemsetAsync(void *pointer, int value, size_t bytes,
                                              cudaStream_t stream);
extern "C" cudaError_t __wrap_cudaMemsetAsync(void *pointer, int value, size_t bytes,
                                              cudaStream_t stream)
{
    if (running)
        return cudaErrorNotSupported;
    if (!deferring)
        return __real_cudaMemsetAsync(pointer, value, bytes, stream);
    if (deferred.size() == most)
        return cudaErrorLaunchOutOfResources;
    deferred.push_back({{}, pointer, value, bytes, stream});
    return cudaSuccess;
}

extern "C" cudaError_t run_deferred(cudaStream_t stream, int *strays)
{
    cudaError_t status = cudaSuccess;
    deferring = false;
    running = true;
    *strays = 0;
    for (const Deferred &each : deferred) {
        *strays += each.stream != stream;
        if (status == cudaSuccess)
            status = each.launch.invoke ? __real_simt_run(&each.launch)
                                        : __real_cudaMemsetAsync(each.pointer, each.value,
                                                                 each.bytes, each.stream);
    }
    deferred.clear();
    running = false;
    return status;
}

/* What a submission prints goes nowhere. %n and %s would write and read memory that is not watched.
 */
extern "C" int __wrap_printf(const char *, ...)
{
    return 0;
}
extern "C" int __wrap_puts(const char *)
{
    return 0;
}
extern "C" int __wrap_putchar(int c)
{
    return c;
}
