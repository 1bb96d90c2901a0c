/* Stacks lie side by side in one mapping per worker, because a process has a limited number of
 * mappings (vm.max_map_count, 65,530 by default). The part below each stack is made inaccessible
 * without a mapping of its own where the kernel can do that (Linux 6.13). Elsewhere guarded stacks
 * cost two mappings each, and only so many are guarded that most of the limit is left to others. */
#include "run/engine.h"
#include "host/memory.h"
#include <algorithm>
#include <fstream>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace simt;

/* Returns the guard below a stack: several pages, so that no large array steps over it. */
static size_t guard_bytes()
{
    const size_t page = page_bytes(), least = 64 << 10;
    return (least + page - 1) / page * page + page;
}

size_t simt::stack_stride()
{
    /* This is usually an odd number of pages: then the tops of the stacks, which a barrier visits
     * one after the other, fall into different sets of the caches of address translations. */
    return stack_bytes + guard_bytes();
}

char *simt::reserve_stacks()
{
    void *area = mmap(nullptr, max_block_threads * stack_stride(), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return area == MAP_FAILED ? nullptr : static_cast<char *>(area);
}

void simt::release_stacks(char *area) { munmap(area, max_block_threads * stack_stride()); }

static unsigned long long read_number(const std::string &path, unsigned long long otherwise)
{
    unsigned long long number;
    return std::ifstream(path) >> number ? number : otherwise;
}

bool simt::prepare_stacks(char *area, unsigned first, unsigned count)
{
    constexpr int guard_install = 102; /* MADV_GUARD_INSTALL, which older headers do not name */
    char *begin = area + first * stack_stride();
    if (mprotect(begin, count * stack_stride(), PROT_READ | PROT_WRITE) != 0)
        return false;
    /* An emulator (qemu-user) says yes to any advice, and does nothing. */
    static const bool obeyed = madvise(begin, guard_bytes(), -1) != 0;
    /* This many guards may split the stacks' mapping: each costs two mappings. */
    static std::atomic<long long> left = read_number("/proc/sys/vm/max_map_count", 65530) / 8;
    for (; count > 0; count--, begin += stack_stride())
        if (!(obeyed && madvise(begin, guard_bytes(), guard_install) == 0) && left-- > 0)
            mprotect(begin, guard_bytes(), PROT_NONE); /* should it fail: only less protection */
    return true;
}

/* Returns what a container allows: the lowest limit of the process's memory groups. */
static unsigned long long group_memory()
{
    unsigned long long least = ~0ull;
    std::ifstream groups("/proc/self/cgroup"); /* lines like 4:memory:/a/b and 0::/a/b */
    for (std::string line; std::getline(groups, line);)
        for (const std::string &at : {line.substr(line.rfind(':') + 1), std::string()})
            for (const std::string &limit :
                 {"/sys/fs/cgroup" + at + "/memory.max",
                  "/sys/fs/cgroup/memory" + at + "/memory.limit_in_bytes"})
                least = std::min(least, read_number(limit, ~0ull));
    return least;
}

static unsigned long long limit_of(int resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

unsigned long long simt::affordable_blocks(unsigned threads)
{
    static const unsigned long long memory = std::min(
        static_cast<unsigned long long>(sysconf(_SC_PHYS_PAGES)) * page_bytes(), group_memory());
    /* A process's limits (ulimit -d, -v) count whole stacks, used or not; half is for others. */
    static const auto countable = std::min(limit_of(RLIMIT_DATA), limit_of(RLIMIT_AS));
    /* Few kernels use more than a page of stack, and its top may lie in the page before. */
    return std::max(1ull, std::min(memory / 2 / (2 * page_bytes() * threads),
                                   countable / 2 / (stack_stride() * threads)));
}
