/* Launches, blocks, warps and threads while they run, and what this room does for itself and
 * others. One OS thread (a worker) runs one block at a time. Each CUDA thread of the block runs on
 * a fiber of that worker, so nothing in Block, Warp or Thread needs a lock: workers share only
 * Launch. */
#pragma once

#include "host/checker.h"
#include "host/device.h"
#include "host/environment.h"
#include <atomic>
#include <csignal>
#include <cuda_runtime.h>
#include <mutex>
#include <simt/warp.h>

/* switch.cpp changes from one stack to another. Only the calling convention's callee-saved
 * registers are saved, not the floating-point environment. */
extern "C" {

/* Says where a function left off that called simt_switch..., and what that call is to return. */
struct simt_context {
    void *stack;
    uint64_t value;
};

/* Leaves the caller's context in *from and goes on where the context `to` was left. */
uint64_t simt_switch(struct simt_context *from, const struct simt_context *to);

/* It does this, but begins function() on an unused stack below `top`, a multiple of 16. */
uint64_t simt_switch_to_new(struct simt_context *from, void *top, void (*function)());

/* Goes on where `context` was left. The caller's own context is lost, so this never returns. */
void simt_resume(const struct simt_context *context);
} /* extern "C" */

namespace simt
{

/* A thread-local variable with this is defined in the program that is linked, not in a library. */
#define SIMT_OWN __attribute__((tls_model("local-exec")))

/* Dynamic shared memory begins here, past a multiple of 1024, unless it is declared as aligned. */
constexpr size_t dynamic_shared_offset = 16;
constexpr unsigned max_warps = max_block_threads / warp_size;
constexpr unsigned max_cluster_blocks = 8;
constexpr unsigned named_barriers = 16; /* PTX's */

inline bool same_site(const Site &a, const Site &b)
{
    return a.line == b.line && (a.file == b.file || !strcmp(a.file, b.file));
}

/* Yields the numbers of a mask's bits, as in `for (unsigned lane : bits(mask))`. */
struct bits {
    uint32_t rest;

    explicit bits(uint32_t mask) : rest(mask) {}
    bits begin() const { return *this; }
    bits end() const { return bits(0); }
    bool operator!=(const bits &other) const { return rest != other.rest; }
    void operator++() { rest &= rest - 1; }
    unsigned operator*() const { return unsigned(__builtin_ctz(rest)); }
};

struct BlockWork;

namespace check
{
class Recent;
}

/* A thread waits for one of these: the block's barrier, usually where its first thread arrived, its
 * warp, or a condition, which may be one of the other barriers. */
enum class Wait : unsigned char { usual_barrier, barrier, warp, condition, named_barrier, cluster };

/* This is a function that its caller keeps. */
template <class Result> struct Borrowed {
    Result (*call)(const void *);
    const void *function;

    template <class Function> Borrowed(const Function &f)
        : call([](const void *kept) -> Result { return (*static_cast<const Function *>(kept))(); }),
          function(&f)
    {
    }
    Result operator()() const { return call(function); }
};

/* A thread waits for this. It is on the thread's own stack, as long as it waits. */
struct Condition {
    Borrowed<bool> holds;
    Borrowed<std::string> name;
};

/* This is a uint3 that is copied in one piece. */
typedef unsigned Index __attribute__((vector_size(16)));

/* A barrier or a warp operation touches only the first cache line of every thread. */
struct alignas(128) Thread {
    Index index;          /* threadIdx */
    simt_context context; /* where to resume it */
    Site site;            /* while it waits: where (see site_of()), ... */
    const char *what;     /* ... in which operation of the warp, ... */
    Wait wait;
    unsigned char barrier; /* ... or at which form of the barrier: see plain_barrier */
    unsigned short stack;  /* of the worker's, from 1; 0 before it runs and after it returned */
    unsigned short linear; /* x + y * blockDim.x + z * blockDim.x * blockDim.y */
    unsigned char lane;

    Warp *warp;
    const Condition *condition;               /* while it waits for one */
    unsigned cluster_arrivals, cluster_waits; /* calls so far of the halves of its barrier */
    check::ThreadState *checked;
    check::Recent *recent; /* what the checker looks up first */
};
static_assert(offsetof(Thread, warp) == 64, "see above");

/* Lanes of a warp meet here, at one operation with one mask, and wait for the rest. */
struct Meeting {
    uint32_t mask, arrived;
    simt_meeting *run; /* null for a shuffle */
    const char *what;
    bool orders_memory; /* as given to simt_meet */
};

/* A lane brings this to a shuffle; see simt_shuffle. */
struct Shuffled {
    uint64_t value;
    unsigned operand, form;
};

struct alignas(64) Warp {
    Thread *thread;      /* its first one */
    uint32_t ready;      /* lanes that can run, by scheduling position */
    uint32_t at_barrier; /* lanes that wait at __syncthreads, by scheduling position */
    /* The warp's turn begins behind this lane, which yielded: a bit by scheduling position. */
    uint32_t resume_after;
    Block *block;
    unsigned number;  /* within the block */
    uint32_t present; /* lanes that exist: the last warp of a block may be short */
    uint32_t alive;   /* lanes that have not returned */
    uint32_t missed;  /* those that an operation waits for; see Checker::armed */
    uint32_t polling; /* lanes that wait for a condition */
    unsigned meetings;
    Meeting meeting[warp_size];
    void *slot[warp_size];        /* what each waiting lane deposited, ... */
    Shuffled shuffled[warp_size]; /* ... or brought to a shuffle */
    uint32_t gathering;           /* lanes in __activemask, ... */
    uint32_t gathered[warp_size]; /* ... and what it will return */
};

constexpr Site nowhere = {nullptr, -1};

/* This is __syncthreads. Warp::at_barrier tells who waits there. */
struct Barrier {
    bool mixed;          /* arrivals came from different places in the source */
    Site site = nowhere; /* of the first arrival, until the barrier opens */
    unsigned truths;     /* __syncthreads_count, _and, _or: arrivals with a predicate that holds */
    int count, all, any; /* the same, as the last completed barrier left them */
};

/* These have to know that a thread has returned. */
enum AfterReturn { meetings_after_return, cluster_after_return, after_returns };

/* Every run of a block begins with this. */
struct BlockProgress {
    unsigned pollers = 0; /* ready threads that only let others run: see simt_yield */
    Barrier barrier = {};
    simt_barrier named_barrier[named_barriers] = {};
    unsigned leaving_grid = 0; /* threads that grid.sync() let go, and that have not gone on yet */
    const Thread *last_atomic = nullptr; /* who made the block's last atomic operation, ... */
    const void *atomic_address;          /* ... on which address, ... */
    unsigned atomic_repeats;             /* ... and how often in a row: it may wait for others */
    /* threads/ and instructions/ set these when first needed in this block; null before. */
    void (*after_return[after_returns])(Thread &) = {}; /* who waited only for this one goes on */
    /* No thread can go on: __syncthreads opens, or work is done. False if neither happens. */
    bool (*open_barrier)(Block &) = nullptr;
    bool (*carry_out)(Block &) = nullptr;
    void (*finish)(Block &) = nullptr; /* all threads have returned */
    BlockWork *work = nullptr;         /* asynchronous instructions' */
};

struct Block : BlockProgress {
    Launch *launch;
    uint3 index;                     /* blockIdx */
    unsigned long long linear, turn; /* of the launch's blocks, by index and in order */
    Cluster *cluster;
    unsigned rank; /* in the cluster */
    unsigned threads, warps;
    unsigned alive; /* threads that have not returned */
    /* They are warps with a ready lane, by position; for the running one see next_warp(). */
    uint32_t ready_warps;
    /* It runs or ran last, by scheduling position: the warp, and the lane as a bit. */
    unsigned warp_cursor;
    uint32_t lane_cursor;
    Warp *running; /* the warp at warp_cursor */
    /* These convert between scheduling order and warp number. */
    unsigned char warp_at[max_warps], warp_position[max_warps];
    unsigned char lane_at[warp_size], lane_position[warp_size]; /* scheduling order <-> lane */
    Thread thread[max_block_threads];
    Warp warp[max_warps];
    check::BlockState *checked;
};

inline const Site &site_of(const Thread &thread)
{
    return thread.wait == Wait::usual_barrier ? thread.warp->block->barrier.site : thread.site;
}

/* Returns whether a thread has begun and cannot go on. It is true for the running one. */
inline bool is_waiting(const Thread &thread)
{
    const Warp &warp = *thread.warp;
    return thread.stack && !(warp.ready >> warp.block->lane_position[thread.lane] & 1);
}

/* This is what the program asked for, and what has become of it. */
struct Launch : simt_launch {
    explicit Launch(const simt_launch &asked) : simt_launch(asked) {}

    const unsigned threads = block.x * block.y * block.z;              /* in each block */
    const unsigned cluster_blocks = cluster.x * cluster.y * cluster.z; /* in each cluster */
    const unsigned long long blocks = 1ull * grid.x * grid.y * grid.z;
    const Function &function = function_at(entry); /* the kernel's */
    unsigned long long number;                     /* launches since the program started, from 1 */
    Order order;
    std::atomic<unsigned long long> next_block{0}, finished_blocks{0};
    std::atomic<unsigned long long> stop_at{blocks}; /* blocks from here on have not begun */
    /* When a report was made, no blocks start, and those from its turn on stop at their next wait.
     * The others go on, because one of them may have to report what comes first. */
    std::atomic<bool> failed{false};
    std::atomic<unsigned long long> failed_turn{UINT64_MAX};
    std::mutex reporting; /* guards what follows: the report that comes first */
    cudaError_t error = cudaSuccess;
    std::string report;
    std::atomic<unsigned> allowed_threads{0}; /* by __launch_bounds__, when a block has more */
    check::LaunchState *checked = nullptr;
};

/* Each OS thread that runs blocks has one. */
struct Worker {
    Block *block; /* the running one, or null between blocks */
    char *stacks; /* see stacks.cpp */
    size_t stack_stride;
    char *shared_begin, *shared_end; /* static __shared__ variables, and the program's other TLS */
    char *dynamic_begin, *dynamic_end; /* this block's, as much as the launch asked for */
    check::BlockState *checked;
};

/* This is the OS thread's worker; it is null on threads that are not running kernels. */
extern __thread Worker *worker SIMT_OWN; /* __thread: no initialisation check at each use */

/* It is the thread that it runs; null while it runs none, so never in kernels' calls. */
extern __thread Thread *current_thread SIMT_OWN;

/* Returns true for addresses in the stacks (local variables) of the worker's threads. */
bool on_thread_stack(const void *address);
/* Returns the same for the running thread's own stack. */
bool on_own_stack(const void *address);

/* This is Thread::barrier of the plain barrier: 0 to 2 are those of simt_syncthreads_reduce. */
constexpr unsigned char plain_barrier = 3;

/* Returns "kernel<16>(float*, int)", by the symbol table or as spelled at the launch. */
const char *kernel_name(const Launch &launch);

/* Returns whether a block has to stop at its next wait. */
inline bool is_stopped(const Block &block)
{
    return block.launch->failed.load(std::memory_order_relaxed) &&
           block.turn >= block.launch->failed_turn;
}

/* The report of the earliest turn becomes backend_report() and the launch's error. Without `turn`
 * it is the running block's. */
void report_in_turn(Launch &, unsigned long long turn, cudaError_t error, const std::string &text);
void report(Launch &launch, cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A Call is an instruction, or a function, in a kernel: its name, its line for reports, and its
 * place in the code, which is where the function that makes the Call returns to. */
struct Call {
    const char *what;
    Site site;
    const void *where;

    Call(const char *what, Site site, const void *where = __builtin_return_address(0))
        : what(what), site(site), where(where)
    {
    }
};

/* Does simt_fail() with "WHAT at FILE:LINE: " before the message. */
[[noreturn]] void fail_at(const Call &call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Gives up the running block from inside a kernel. */
[[noreturn]] void abandon_block();

/* Returns "block (1,0,0), thread (3,0,0)". */
std::string describe(const Thread &thread);

/* ---- engine.cpp: the threads of one block, on fibers of the calling OS thread ---- */

/* Makes the calling OS thread a worker, able to run blocks on these stacks: called once. */
void become_worker(char *stacks);

/* The calling thread waits until holds() is true. Meanwhile other threads of its block run, and may
 * call holds(), which only looks. The report of a wait in vain says name(). */
void wait_until(Borrowed<bool> holds, Site site, Borrowed<std::string> name,
                Wait kind = Wait::condition);

/* Runs the block whose turn it is to its end, or until it is abandoned. */
void run_block(Launch &launch, unsigned long long turn);

/* threadIdx and its relatives, which kernels see as constants. */
extern __thread Index thread_index __asm__("threadIdx") SIMT_OWN;
extern __thread uint3 block_index __asm__("blockIdx") SIMT_OWN;
extern __thread dim3 block_shape __asm__("blockDim") SIMT_OWN;
extern __thread dim3 grid_shape __asm__("gridDim") SIMT_OWN;

/* Returns whether an address is one of them: they lie among the thread's shared variables. */
bool is_builtin(const void *address);

/* ---- report.cpp ---- */

/* Says what is wrong and who waits where, fails the launch and gives the block up. */
[[noreturn]] void report_waiting(const Block &block, const char *headline);
/* The same when no thread of the block can go on. */
[[noreturn]] void report_deadlock(const Block &block);

/* This is a fault_handler: a kernel's fault fails the launch. */
void fail_kernel(int signal, const siginfo_t *info);

/* ---- order.cpp: in which order blocks, warps and lanes run; for clusters see cluster.h ---- */

/* Returns blockIdx of the block of number `turn`. Those of a cluster follow each other. */
uint3 launched_in_turn(const Launch &launch, unsigned long long turn);
uint64_t scramble(uint64_t seed);
/* Puts 0 to count - 1 in the order in which warps, lanes or blocks of a cluster run. If that is
 * random, it also depends on the salt. */
void put_in_order(unsigned char *numbers, unsigned count, const Order &order, uint64_t salt);

/* ---- pool.cpp: the OS threads that run blocks ---- */

/* Runs the blocks of the launch before launch.stop_at. Begins with `workers` OS threads (in a
 * cooperative launch one for each block). When no block ends for a while, it adds more, up to
 * `resident`, because running blocks may be waiting for blocks that have not begun. */
cudaError_t run_on_workers(Launch &, unsigned workers, unsigned long long resident, bool traced);
/* Does grid.sync() at `site`, once per block and barrier: its OS thread waits for the others'. */
void wait_for_grid(Block &block, Site site);

/* ---- stacks.cpp: one area of address space per worker ---- */

/* A thread may use this much; only the pages that it touches take memory. */
constexpr size_t stack_bytes = 256 << 10;
/* Returns the distance from a stack of an area to the next, with its inaccessible part. */
size_t stack_stride();
/* Reserves addresses for the stacks of a block, none usable yet; null if there are no more. */
char *reserve_stacks();
void release_stacks(char *area);
/* Makes `count` stacks of the area usable, counting from 0. Returns false if there is no memory. */
bool prepare_stacks(char *area, unsigned first, unsigned count);
/* Returns how many blocks of `threads` threads may run at a time before the stacks could take more
 * than half of the memory that the process may use. It is at least 1. */
unsigned long long affordable_blocks(unsigned threads);

} /* namespace simt */
