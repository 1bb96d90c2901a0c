/*
 * Asynchronous work of a block: copies and products that are under way until a thread waits for
 * them. They are carried out as late as the rules allow, so that a missing wait shows as a wrong
 * answer or as a report, every time. INSTRUCTIONS.md has the table of when.
 */
#pragma once

#include "run/engine.h"
#include "instructions/tensor_map.h"
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

namespace simt
{

/* ---- what all instructions need ---- */

/* An instruction in a kernel: its name, for reports its line, and its place in the code, which is
 * where the ptx:: function returns to that makes the Call. */
struct Call {
    const char *what;
    Site site;
    const void *where;

    Call(const char *what, Site site, const void *where = __builtin_return_address(0))
        : what(what), site(site), where(where)
    {
    }
};

[[noreturn]] void fail_at(const Call &call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For meetings of instructions that are defined for 32 lanes only. */
constexpr unsigned whole_warp = ~0u;
void require_whole_warp(unsigned lanes);

/* The lanes of the mask meet, and that is all. */
void come_together(unsigned mask, const Call &call);

/* `bytes` of the block's shared memory at a shared-window address; a report when it lies elsewhere
 * or is misaligned. */
char *shared_place(uint32_t address, size_t bytes, size_t alignment, const Call &call);

/* The same in another block of the cluster, at an address of cluster_address(): that block, which
 * has not ended, and the place there. */
struct ClusterPlace {
    Block *home;
    char *place;
};
ClusterPlace cluster_place(uint32_t address, size_t bytes, const Call &call);

/* ---- groups: what a thread starts, closes by a commit, and waits for in that order ---- */

struct InGroup {
    Call call;
    unsigned long long group;
};

template <class Work>
struct Groups {
    std::vector<Work> work;    /* under way, oldest first */
    unsigned long long closed; /* so many so far; the open one has this number */

    void commit(const char *event, const void *where = __builtin_return_address(0))
    {
        checker->noted(event, nullptr, closed++, 0, where);
    }

    /* How much of the work a wait covers that leaves `pending` groups under way. */
    size_t covered(unsigned pending) const
    {
        size_t count = 0;
        while (count < work.size() && work[count].group + pending < closed)
            count++;
        return count;
    }

    void forget(size_t count) { work.erase(work.begin(), work.begin() + ptrdiff_t(count)); }
};

/* ---- cp.async ---- */

struct CopyUnderWay : InGroup {
    char *to;
    unsigned char bytes[16];
    unsigned size;
};

/* ---- mbarrier ---- */

struct Mbarrier {
    const Block *home;
    const void *place;            /* in its shared memory */
    unsigned initialiser;         /* the thread that must fence before the copy engine may use it */
    unsigned expected;            /* arrivals that end a phase */
    unsigned missing;             /* arrivals that this phase still needs */
    long long bytes = 0;          /* announced and not yet written */
    unsigned long long phase = 0; /* the one that is not over; its parity is phase % 2 */
    unsigned waiting = 0;         /* threads */
    bool fenced = false;
    /* of bytes, the last one: in its name those from other blocks come */
    Thread *announcer = nullptr;
    /* To the checker they stand for the phases of either parity: who waits for a phase knows of
     * arrivals in it, not of one that comes later, though it may have come by then. */
    char order[2] = {};
};

/* ---- TMA ---- */

/* A part of an array in global memory, and its place in shared memory. */
struct Box {
    TensorMap map; /* a copy: the kernel's own may be gone by the time */
    int coordinates[max_tensor_rank];
    char *shared;
};

/* Of a box, or of one word that another block stores. */
struct TensorLoad : Box {
    Call call;
    bool is_word;
    int word;
    size_t bytes;
    Mbarrier *barrier;
    Thread *thread; /* who started it; null for one of another block */
};

struct TensorStore : InGroup, Box {
    /* as they were when the store started, and must still be when it reads */
    std::vector<char> bytes;
};

/* ---- wgmma ---- */

/* What all threads of the warpgroup must ask for alike. A is in registers, or else behind its
 * descriptor. */
struct ProductShape {
    unsigned n;
    bool registers, b_along_n, accumulate, bfloat16;
    uint64_t a_descriptor, b_descriptor;
};

struct Product : ProductShape, InGroup {
    float *d;
    uint32_t a[4];
    /* d as it was; empty where an earlier product on the same d is under way */
    std::vector<float> before;
    unsigned long long number; /* among the warpgroup's */
};

/* One product as the first thread of the warpgroup asked for it, and how many did. */
struct SharedProduct {
    ProductShape shape;
    unsigned threads;
};

/* ---- all of a thread's, and of a block's ---- */

struct ThreadWork {
    Groups<CopyUnderWay> copies;
    Groups<TensorStore> stores;
    size_t stores_read; /* so many of them, the oldest */
    Groups<Product> products;
    std::map<const float *, std::vector<float>> accumulators; /* as the last product left them */
    unsigned long long products_issued;
    bool products_fenced;
};

struct BlockWork {
    std::vector<ThreadWork> thread;
    std::unordered_map<const void *, Mbarrier> mbarriers;
    unsigned impatient;           /* threads in mbarrier_try_wait, which may be told no ... */
    unsigned long long answers;   /* ... when no thread can go on: so often so far, */
    unsigned timeouts;            /* and since anybody last arrived */
    std::deque<TensorLoad> loads; /* under way, oldest first */
    std::vector<SharedProduct> warpgroup[max_block_threads / 128]; /* its products */
    unsigned registers[max_warps];
    int free_registers;
    uint64_t random;
};

BlockWork &begin_block_work(); /* of the running block, which has none yet */

inline BlockWork &block_work()
{
    BlockWork *work = worker->block->work;
    return work ? *work : begin_block_work();
}

inline ThreadWork &thread_work() { return block_work().thread[current_thread->linear]; }

/* Adds to an mbarrier's phase, and ends it when nothing is missing. `bytes` may be negative: they
 * have been written. */
void count_on_mbarrier(Mbarrier &barrier, unsigned arrivals, long long bytes);

/* The mbarrier that was initialised at `place`, of the running block or of another one of its
 * cluster; a report when there is none. */
Mbarrier &find_mbarrier(uint64_t *place, const Call &call);
Mbarrier &find_mbarrier(const ClusterPlace &at, const Call &call);

/* Lets the threads in mbarrier_try_wait go on with a no; false when there are none, or when that is
 * no use. */
bool answer_impatient(BlockWork &work);

bool complete_tensor_load(BlockWork &work); /* that a thread waits for; false: there is none */

/* The oldest stores, which were read, take effect and are forgotten. */
void write_stores(ThreadWork &thread, size_t count);

} /* namespace simt */
