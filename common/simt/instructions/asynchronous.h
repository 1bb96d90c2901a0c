/* The asynchronous work of a block is copies and products that are in flight until a thread waits
 * for them. They are carried out as late as the rules allow, so that a missing wait shows as a
 * wrong answer or as a report, every time. INSTRUCTIONS.md has the table of when. */
#pragma once

#include "run/engine.h"
#include "instructions/tensor_map.h"
#include <deque>
#include <map>
#include <unordered_map>

namespace simt
{

/* Instructions that are defined only for 32 lanes meet with this mask. */
constexpr unsigned whole_warp = ~0u;
void require_whole_warp(unsigned lanes);

/* The lanes of the mask meet and do nothing else. */
void come_together(unsigned mask, const Call &call);

/* Returns a shared-window address's place in the block. Reports a misaligned or other address. */
char *shared_place(uint32_t address, size_t bytes, size_t alignment, const Call &call);

/* The same for cluster_address(): a block of the cluster, which has not ended, and the place. */
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

template <class Work> struct Groups {
    std::vector<Work> work;    /* under way, oldest first */
    unsigned long long closed; /* how many are closed; the open one has this number */

    void commit(const char *event, const void *where = __builtin_return_address(0))
    {
        checker->noted(event, nullptr, closed++, 0, where);
    }

    /* Returns how much of the work is covered by a wait that leaves `pending` groups in flight. */
    size_t covered(unsigned pending) const
    {
        size_t count = 0;
        while (count < work.size() && work[count].group + pending < closed)
            count++;
        return count;
    }

    void forget(size_t count) { work.erase(work.begin(), work.begin() + ptrdiff_t(count)); }
};

struct CopyUnderWay : InGroup {
    char *to;
    unsigned char bytes[16];
    unsigned size;
    unsigned long long committed; /* how often the thread had loaded from shared memory by then */
};

struct Mbarrier {
    const Block *home;
    const void *place;            /* in its shared memory */
    unsigned initialiser;         /* the thread that must fence before the copy engine may use it */
    unsigned expected;            /* arrivals that end a phase */
    unsigned missing;             /* arrivals that this phase still needs */
    long long bytes = 0;          /* announced and not yet written */
    unsigned long long phase = 0; /* the current one; its parity is phase % 2 */
    unsigned waiting = 0;         /* threads */
    bool fenced = false;
    /* This is the last thread that announced bytes. Bytes from other blocks come in its name. */
    Thread *announcer = nullptr;
    /* To the checker these stand for the phases of either parity: a thread that waits for a phase
     * knows of arrivals in it, not of one that comes later, though it may have come by then. */
    char order[2] = {};
};

/* A box is a part of an array in global memory, and its place in shared memory. */
struct Box {
    TensorMap map; /* a copy, because the kernel's own may be gone by then */
    int coordinates[max_tensor_rank];
    char *shared;
};

/* This is the load of a box, or of one word that another block stores. */
struct TensorLoad : Box {
    Call call;
    bool is_word;
    int word;
    size_t bytes;
    Mbarrier *barrier;
    Thread *thread; /* the thread that started it; null for one of another block */
};

/* This is the store of a box, or of a row of floats that are added. */
struct TensorStore : InGroup, Box {
    /* They are the bytes as the store found them. They must be the same when it reads. */
    std::vector<char> bytes;
    float *sums; /* what the floats are added to; null for a box */
};

/* All threads of the warpgroup ask for the same. A is in registers, or behind its descriptor. */
struct ProductShape {
    unsigned n;
    bool registers, n_along, accumulate, bfloat16;
    uint64_t a_descriptor, b_descriptor;
};

struct Product : ProductShape, InGroup {
    float *d;
    uint32_t a[4];
    /* This is d as it was. It is empty where an earlier product on the same d is in flight. */
    std::vector<float> before;
    unsigned long long number; /* among the warpgroup's */
};

/* It is one product as the warpgroup's first thread asked for it, and how many have. */
struct SharedProduct {
    ProductShape shape;
    unsigned threads;
};

struct ThreadWork {
    Groups<CopyUnderWay> copies;
    Groups<TensorStore> stores;
    size_t stores_read; /* how many, from the oldest on, were read */
    Groups<Product> products;
    std::map<const float *, std::vector<float>> accumulators; /* as the last product left them */
    unsigned long long products_issued;
    bool products_fenced;
};

struct BlockWork {
    std::vector<ThreadWork> thread;
    std::unordered_map<const void *, Mbarrier> mbarriers;
    unsigned impatient;           /* threads in mbarrier_try_wait, which may be told no ... */
    unsigned long long answers;   /* ... when no thread can go on: this often so far, */
    unsigned timeouts;            /* and this often since anybody last arrived */
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

/* Adds to an mbarrier's phase, and ends it if nothing is missing. Negative `bytes` are written. */
void count_on_mbarrier(Mbarrier &barrier, unsigned arrivals, long long bytes);

/* Returns the mbarrier that was initialised at `place`, here or in the cluster, or reports. */
Mbarrier &find_mbarrier(uint64_t *place, const Call &call);
Mbarrier &find_mbarrier(const ClusterPlace &at, const Call &call);

/* Threads in mbarrier_try_wait go on with a no; false if there are none, or it is of no use. */
bool answer_impatient(BlockWork &work);

bool complete_tensor_load(BlockWork &work); /* false: no thread waits for one */

/* The oldest stores, which have been read, take effect and are forgotten. */
void write_stores(ThreadWork &thread, size_t count);

} /* namespace simt */
