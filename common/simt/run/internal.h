/*
 * The CPU backend's own data: what a launch, a block, a warp and a thread are while they run.
 *
 * One OS thread (a worker) runs one block at a time. Each CUDA thread of the block runs on a fiber
 * of that worker, so nothing in Block, Warp or Thread needs a lock: only Launch is shared between
 * workers.
 */
#ifndef SIMT_INTERNAL_H
#define SIMT_INTERNAL_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <simt/warp.h>

namespace simt
{

constexpr unsigned warp_size = 32;
constexpr unsigned max_block_threads = 1024;
constexpr unsigned max_warps = max_block_threads / warp_size;
constexpr unsigned max_cluster_blocks = 8;
/* barrier 0 is __syncthreads, 1 to 15 are PTX's named barriers */
constexpr unsigned max_barriers = 16;

/* A call in the program, as __builtin_FILE and __builtin_LINE saw it. */
struct Site {
    const char *file;
    int line;
};

struct Block;
struct Warp;
struct Cluster;

/* What a thread that cannot go on is waiting for. */
enum class Wait : unsigned char { nothing, barrier, warp, condition };

/* All of a thread that a barrier touches: as little as possible, because every barrier touches it of
 * every thread. */
struct alignas(32) Fiber {
    void *context;    /* where to resume it */
    const char *file; /* while it waits: where ... */
    int line;
    unsigned short x, y, z; /* threadIdx */
    /* of the worker's, from 1; 0 before the thread first runs and after it returned (alive tells which) */
    unsigned short stack;
    Wait wait;             /* ... and for what */
    unsigned char barrier; /* while wait is barrier: which one ... */
    unsigned char flavour; /* ... and by which call: see barrier.h */
};

struct Thread {
    Fiber *fiber;
    Warp *warp;
    unsigned linear; /* x + y * blockDim.x + z * blockDim.x * blockDim.y */
    unsigned char lane;
    bool orders_memory; /* while it waits for its warp: as given to simt_meet */
    const char *what;   /* while it waits for its warp or a condition: what the report calls it */

    simt_condition *condition; /* while wait is condition */
    void *condition_argument;
    unsigned long long grid_barriers; /* grid.sync() calls so far */
    unsigned long long cluster_arrivals,
        cluster_waits;       /* the same of the two halves of the cluster's barrier */
    const void *last_atomic; /* spin detection: the address of the last atomic ... */
    unsigned atomic_repeats; /* ... and how often in a row */
    void *checker;           /* belongs to the checked build */
};

/* Lanes of one warp that came to the same operation with the same mask and wait for the rest. */
struct Meeting {
    uint32_t mask, arrived;
    simt_meeting *run;
    const char *what;
};

struct Warp {
    Block *block;
    Thread *thread; /* its first one */
    unsigned number;              /* within the block */
    uint32_t present;             /* lanes that exist: the last warp of a block may be short */
    uint32_t alive;               /* lanes that have not returned */
    uint32_t ready;               /* who can run, by scheduling position, not by lane */
    uint32_t at_barrier;          /* who waits at barrier 0, by scheduling position */
    uint32_t polling;             /* who waits for a condition, by lane */
    uint32_t gathering;           /* who is in __activemask, by lane ... */
    uint32_t gathered[warp_size]; /* ... and what it will return */
    unsigned meetings;
    Meeting meeting[warp_size];
    void *slot[warp_size]; /* what each waiting lane deposited */
    void *checker;
};

struct Barrier {
    unsigned arrived;    /* threads that wait or, for a named barrier, came by */
    unsigned expected;   /* named barriers: the count that their callers gave */
    bool mixed;          /* arrivals came from different places in the source */
    Site site;           /* of the first arrival */
    unsigned truths;     /* __syncthreads_count, _and, _or: arrivals with a predicate that holds */
    int count, all, any; /* the same, as the last completed barrier left them */
};

struct Launch;

struct Block {
    Launch *launch;
    uint3 index; /* blockIdx */
    unsigned long long linear;
    Cluster *cluster;
    unsigned rank; /* in the cluster */
    unsigned threads, warps;
    unsigned alive;                    /* threads that have not returned */
    uint32_t ready_warps;              /* warps with a ready lane, by scheduling position */
    unsigned warp_cursor, lane_cursor; /* the scheduling position that runs or ran last */
    Warp *running;                     /* the warp at warp_cursor */
    /* scheduling order <-> warp number */
    unsigned char warp_at[max_warps], warp_position[max_warps];
    unsigned char lane_at[warp_size], lane_position[warp_size]; /* scheduling order <-> lane */
    Barrier barrier[max_barriers];
    unsigned long long grid_barriers; /* grid.sync() calls that the block has begun */
    unsigned long long barriers;      /* completed __syncthreads (any flavour) */
    Fiber fiber[max_block_threads];
    Thread thread[max_block_threads];
    Warp warp[max_warps];
    void *checker;
};

struct Launch {
    const char *kernel; /* as spelled at the launch; see kernel_name() for the symbol */
    const void *entry;  /* the kernel function, null for one with deduced template arguments */
    void (*invoke)(void *arguments);
    void *arguments;
    size_t argument_bytes;
    dim3 grid, block;
    size_t dynamic_shared;
    bool cooperative;
    dim3 cluster;            /* in blocks */
    unsigned cluster_blocks; /* the product of the three */
    unsigned long long blocks;
    unsigned long long number; /* launches since the program started, from 1 */
    Site site;
    std::atomic<unsigned long long> next_block{0}, finished_blocks{0};
    std::atomic<bool> failed{
        false}; /* a report was made: blocks stop at their next wait, no new ones start */
    void *checker = nullptr;
};

/* One per OS thread that runs blocks. */
struct Worker {
    Block *block;   /* the running one, or null between blocks */
    Thread *thread; /* the running one, or null */
    char *stacks;   /* see stacks.h */
    char *shared_begin,
        /* this OS thread's static __shared__ variables (and other TLS of the program) */
        *shared_end;
    char *dynamic_begin,
        *dynamic_end; /* this block's dynamic shared memory, exactly as large as the launch asked */
    void *checker;
};

/* Where a thread waits. */
inline Site site_of(const Thread &thread)
{
    return Site{thread.fiber->file, thread.fiber->line};
}

/* This OS thread's worker; null on threads that are not running kernels. */
extern __thread Worker *worker; /* __thread: no initialisation check at each use */

inline Thread *current_thread()
{
    return worker ? worker->thread : nullptr;
}

/* True for addresses in the stacks of the calling worker's threads (their local variables). */
bool on_thread_stack(const void *address);
/* The same for the running thread's own stack. */
bool on_own_stack(const void *address);

/* Part of threadIdx, blockIdx, blockDim or gridDim, which lie among the calling OS thread's shared
 * variables. */
bool is_builtin(const void *address);

/* "kernel<16>(float*, int)": from the symbol table when it is there, else as spelled at the
 * launch. */
const char *kernel_name(const Launch &launch);

/*
 * Device memory. All of it lies in one reserved range of addresses; each allocation ends at an
 * inaccessible page, and freed addresses stay inaccessible for as long as the range lasts.
 */
struct Allocation {
    char *begin;
    size_t bytes; /* as asked for */
    bool managed; /* the host may touch it too */
    bool freed;
    unsigned long long number; /* from 1, in order of allocation */
    void *checker;
};

bool in_device_arena(const void *address);
/* The allocation (alive or freed) that holds `address`, or else the last one that begins below it;
 * null if none. */
const Allocation *find_allocation(const void *address);

/*
 * The first report wins: it becomes backend_report() and the launch's error. `launch` may be null
 * (host-side errors). Returns true if this call was the first.
 */
bool report(Launch *launch, cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Gives up the running block from inside a kernel. */
[[noreturn]] void abandon_block();

/* "block (1,0,0), thread (3,0,0)" of the running thread, into `text`. */
void describe_thread(const Thread &thread, char *text, size_t size);

/* The environment, read at every launch. */
struct Order {
    enum Kind { in_order, reversed, random } kind;
    uint64_t seed;
};

} /* namespace simt */

#endif
