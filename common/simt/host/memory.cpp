/* Device memory lies in one reserved range of addresses, the arena. Each allocation is moved
 * against the end of its pages, so that the first byte past it (rounded to CUDA's alignment of 256)
 * is on a page that no access may touch. Addresses are not used again: stale pointers fail. */
#include "host/memory.h"
#include "host/errors.h"
#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <set>
#include <simt/launch.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace simt;

constexpr size_t alignment = 256;
/* Large allocations begin at a multiple of this, so that the system may give them such pages: a
 * kernel that walks down a column touches one page after the other. */
constexpr size_t huge_page = size_t(2) << 20;
constexpr size_t arena_bytes = size_t(1) << 40; /* address space only */

static std::mutex mutex;
static char *arena, *arena_end, *arena_next;
static std::vector<Allocation *> allocations; /* all that ever existed, by address */
static std::vector<Allocation *> closable;    /* living ones that the host may not touch */
static unsigned openings;                     /* OpenDeviceMemory objects that exist */
static size_t in_use;
static uint64_t pool[cudaMemPoolAttrUsedMemHigh + 1] = {0, 1, 1, 1}; /* its attributes */

size_t simt::page_bytes() { return size_t(getpagesize()); }

static size_t rounded_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

size_t simt::device_memory_bytes()
{
    static const size_t bytes = size_t(sysconf(_SC_PHYS_PAGES)) * page_bytes() / 2;
    return bytes;
}

static bool reserve_arena()
{
    for (size_t bytes = arena_bytes; !arena && bytes >= size_t(1) << 32; bytes /= 2) {
        void *memory =
            mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            continue;
        arena = static_cast<char *>(memory);
        arena_end = arena + bytes;
        arena_next = arena + page_bytes();
        catch_faults(nullptr); /* from now on there are device pointers that host code may follow */
    }
    if (!arena)
        fprintf(stderr, "simt: no 4 GB of address space for device memory; see `ulimit -v`\n");
    return arena;
}

bool simt::in_device_arena(const void *address) { return address >= arena && address < arena_end; }

static Allocation *find_locked(const void *address)
{
    const auto before = [](const void *p, const Allocation *each) { return p < each->begin; };
    auto after = std::upper_bound(allocations.begin(), allocations.end(), address, before);
    return after == allocations.begin() ? nullptr : *(after - 1);
}

const Allocation *simt::find_allocation(const void *address)
{
    std::lock_guard<std::mutex> lock(mutex);
    return find_locked(address);
}

/* Returns whether bytes that begin in an allocation lie in it, and it is alive. */
static bool holds(const Allocation *allocation, const void *begin, size_t bytes)
{
    const char *p = static_cast<const char *>(begin);
    return allocation && !allocation->freed && p + bytes <= allocation->begin + allocation->bytes;
}

bool simt::is_device_range(const void *begin, size_t bytes)
{
    return holds(find_allocation(begin), begin, bytes);
}

/* Returns the pages of an allocation: where they begin, and how many bytes they are. */
static std::pair<char *, size_t> pages_of(const Allocation &allocation)
{
    const size_t before = uintptr_t(allocation.begin) % page_bytes();
    return {allocation.begin - before, rounded_up(before + allocation.bytes, page_bytes())};
}

/* New memory holds NaN of any type: a kernel that relies on zeros fails, as it may on a GPU. Of
 * very large allocations only the two ends are filled, to spare memory. */
static void poison(char *begin, size_t bytes)
{
    constexpr size_t most = size_t(64) << 20;
    const size_t first = std::min(bytes, most), last = std::min(bytes - first, most);
    memset(begin, 0xff, first);
    memset(begin + bytes - last, 0xff, last);
}

/* Protection costs a system call for each allocation, twice a launch; with many it goes without. */
constexpr size_t most_closable = 64;

static void open(Allocation &allocation, bool is_open)
{
    const auto [pages, bytes] = pages_of(allocation);
    if (allocation.open != is_open)
        mprotect(pages, bytes, is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
    allocation.open = is_open;
}

static void open_or_close_all()
{
    if (closable.size() <= most_closable + 1) /* with more of them, all are open */
        for (Allocation *allocation : closable)
            open(*allocation, openings > 0 || closable.size() > most_closable);
}

OpenDeviceMemory::OpenDeviceMemory(const void *one, const void *other)
{
    std::lock_guard<std::mutex> lock(mutex);
    openings++;
    if (!one)
        open_or_close_all();
    for (const void *address : {one, other}) {
        Allocation *allocation = find_locked(address);
        if (allocation && in_device_arena(address) && !allocation->freed)
            open(*allocation, true);
    }
}

OpenDeviceMemory::~OpenDeviceMemory()
{
    std::lock_guard<std::mutex> lock(mutex);
    if (--openings == 0)
        open_or_close_all();
}

/* Adds to what is in use, and to its highest number since the program last set that. */
static void use(size_t more)
{
    in_use += more;
    for (int current : {cudaMemPoolAttrReservedMemCurrent, cudaMemPoolAttrUsedMemCurrent}) {
        pool[current] = in_use;
        pool[current + 1] = std::max(pool[current + 1], pool[current]);
    }
}

/* Takes whole pages of the arena, and one inaccessible; null if there are none. It is locked. */
static Allocation *take_pages(size_t bytes, size_t alignment, cudaMemoryType type)
{
    const size_t usable = rounded_up(bytes, alignment), pages = rounded_up(usable, page_bytes());
    if (!arena && !reserve_arena())
        return nullptr;
    if (pages >= huge_page)
        arena_next += -reinterpret_cast<uintptr_t>(arena_next) % huge_page;
    if (pages + page_bytes() > size_t(arena_end - arena_next) ||
        mprotect(arena_next, pages, PROT_READ | PROT_WRITE) != 0)
        return nullptr;
    if (pages >= huge_page)
        madvise(arena_next, pages, MADV_HUGEPAGE);
    Allocation *allocation = new Allocation{arena_next + pages - usable, bytes,  type, true, false,
                                            allocations.size() + 1,      nullptr};
    arena_next += pages + page_bytes();
    allocations.push_back(allocation);
    use(bytes);
    poison(allocation->begin, bytes);
    checker->allocated(*allocation);
    if (!allocation->for_host_too())
        closable.push_back(allocation);
    return allocation;
}

static bool has_room(size_t bytes)
{
    return bytes <= device_memory_bytes() && in_use <= device_memory_bytes() - bytes;
}

cudaError_t simt::allocate(void **pointer, size_t bytes, cudaMemoryType type)
{
    if (cudaError_t error = standing_error_or(pointer, cudaErrorInvalidValue))
        return error;
    if (bytes == 0) {
        *pointer = nullptr;
        return cudaSuccess;
    }
    std::lock_guard<std::mutex> lock(mutex);
    if (!has_room(bytes))
        return refuse(cudaErrorMemoryAllocation,
                      "%zu bytes asked for, %zu of the device's %zu bytes are free", bytes,
                      device_memory_bytes() - in_use, device_memory_bytes());
    Allocation *allocation = take_pages(bytes, alignment, type);
    if (!allocation)
        return refuse(cudaErrorMemoryAllocation,
                      "the system has no memory, or no addresses, for %zu bytes", bytes);
    *pointer = allocation->begin;
    if (allocation->for_host_too())
        memset(*pointer, 0, bytes); /* as fresh pages are: programs have come to rely on it */
    open_or_close_all();
    return cudaSuccess;
}

static void give_back(Allocation &allocation)
{
    const auto [pages, bytes] = pages_of(allocation);
    madvise(pages, bytes, MADV_DONTNEED);
    open(allocation, false);
    closable.erase(std::remove(closable.begin(), closable.end(), &allocation), closable.end());
    allocation.freed = true;
    use(-allocation.bytes);
    checker->freed(allocation);
}

void simt::free_all_device_memory()
{
    std::lock_guard<std::mutex> lock(mutex);
    for (Allocation *allocation : allocations)
        if (!allocation->freed)
            give_back(*allocation);
}

void *simt::allocate_in_kernel(size_t bytes)
{
    std::lock_guard<std::mutex> lock(mutex);
    const Allocation *allocation =
        bytes == 0 || !has_room(bytes) ? nullptr : take_pages(bytes, 16, cudaMemoryTypeDevice);
    return allocation ? allocation->begin : nullptr;
}

/* Says why memory at `pointer` cannot be freed; "" when it has been. */
static std::string free_device(void *pointer)
{
    std::lock_guard<std::mutex> lock(mutex);
    Allocation *found = find_locked(pointer);
    if (!found || found->begin != pointer)
        return "no allocation begins there";
    if (found->freed)
        return format("freed already (allocation %llu, %zu bytes)", found->number, found->bytes);
    give_back(*found);
    return "";
}

bool simt::free_in_kernel(void *pointer) { return free_device(pointer).empty(); }

/* The form of delete does not tell whose memory it is. Its forms for arrays call these. */
void operator delete(void *pointer) noexcept
{
    if (!in_device_arena(pointer))
        free(pointer);
    else if (!free_in_kernel(pointer))
        kernel_failed(
            cudaErrorLaunchFailure,
            format("delete of %p, where no memory of the device's heap begins, or no longer",
                   pointer));
}

void operator delete(void *pointer, size_t) noexcept { operator delete(pointer); }

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    if (!pitch)
        return done(cudaErrorInvalidValue);
    *pitch = rounded_up(width, 512);
    return cudaMalloc(pointer, *pitch * height);
}

cudaError_t cudaMalloc3D(cudaPitchedPtr *pointer, cudaExtent extent)
{
    if (!pointer)
        return done(cudaErrorInvalidValue);
    pointer->xsize = extent.width;
    pointer->ysize = extent.height;
    return cudaMallocPitch(&pointer->ptr, &pointer->pitch, extent.width,
                           extent.height * extent.depth);
}

cudaError_t cudaFree(void *pointer)
{
    if (cudaError_t error = standing_error())
        return error;
    const std::string why = pointer ? free_device(pointer) : "";
    return why.empty() ? cudaSuccess
                       : refuse(cudaErrorInvalidValue, "cudaFree(%p): %s", pointer, why.c_str());
}

/* This is the program's own memory, which kernels may touch from now on. */
static std::set<Allocation *> registered;

/* Kernels were given these pointers to host memory, with this bit changed. */
static std::set<uintptr_t> guarded;
constexpr uintptr_t guard_bit = uintptr_t(1) << 46;

static Allocation *find_registered(const void *pointer)
{
    for (Allocation *each : registered)
        if (size_t(static_cast<const char *>(pointer) - each->begin) < each->bytes)
            return each;
    return nullptr;
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int)
{
    const bool in_device_memory = is_device_range(host, 1);
    std::lock_guard<std::mutex> lock(mutex);
    if (!device || !(in_device_memory || find_registered(host)))
        return done(cudaErrorInvalidValue);
    *device = host;
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned int)
{
    if (cudaError_t error = standing_error_or(pointer && bytes > 0 && !in_device_arena(pointer),
                                              cudaErrorInvalidValue))
        return error;
    std::lock_guard<std::mutex> lock(mutex);
    if (find_registered(pointer))
        return done(cudaErrorHostMemoryAlreadyRegistered);
    char *const begin = static_cast<char *>(pointer);
    auto *made = new Allocation{begin, bytes, cudaMemoryTypeHost, false, false, 0, nullptr};
    registered.insert(made);
    checker->allocated(*made);
    return cudaSuccess;
}

/* Programs' variables are no host memory in this sense: they may be __device__ ones. */
void *simt_guard(const volatile void *pointer)
{
    void *const host = const_cast<void *>(pointer);
    Dl_info program;
    std::lock_guard<std::mutex> lock(mutex);
    if (checker->armed || uintptr_t(host) < page_bytes() || in_device_arena(host) ||
        find_registered(host) || dladdr(host, &program))
        return host;
    guarded.insert(uintptr_t(host));
    return reinterpret_cast<void *>(uintptr_t(host) ^ guard_bit);
}

uintptr_t simt::guarded_pointer(const void *address)
{
    const uintptr_t host = uintptr_t(address) ^ guard_bit;
    std::lock_guard<std::mutex> lock(mutex);
    const auto after = guarded.upper_bound(host);
    return after != guarded.begin() && host - *std::prev(after) < size_t(1) << 30 ? host : 0;
}

cudaError_t cudaHostUnregister(void *pointer)
{
    if (cudaError_t error = standing_error())
        return error;
    std::lock_guard<std::mutex> lock(mutex);
    Allocation *const found = find_registered(pointer);
    if (!found || found->begin != pointer)
        return done(cudaErrorHostMemoryNotRegistered);
    found->freed = true;
    checker->freed(*found);
    registered.erase(found);
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    if (!attributes)
        return done(cudaErrorInvalidValue);
    void *const same = const_cast<void *>(pointer);
    std::lock_guard<std::mutex> lock(mutex);
    const Allocation *in = find_locked(pointer);
    if (!holds(in, pointer, 1))
        in = find_registered(pointer);
    if (in)
        *attributes = {in->type, 0, same, in->for_host_too() ? same : nullptr};
    else
        *attributes = {cudaMemoryTypeUnregistered, cudaInvalidDeviceId, nullptr, same};
    return cudaSuccess;
}

cudaError_t simt::pool_attribute(cudaMemPoolAttr attribute, void *to, const void *from)
{
    const bool known = attribute >= 1 && attribute <= cudaMemPoolAttrUsedMemHigh;
    if (cudaError_t error = standing_error_or(known && (to || from), cudaErrorInvalidValue))
        return error;
    std::lock_guard<std::mutex> lock(mutex);
    memcpy(to ? to : &pool[attribute], from ? from : &pool[attribute],
           attribute < cudaMemPoolAttrReleaseThreshold ? sizeof(int) : sizeof *pool);
    use(0);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    if (!available || !total)
        return done(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(mutex);
    *total = device_memory_bytes();
    *available = *total - in_use;
    return cudaSuccess;
}
