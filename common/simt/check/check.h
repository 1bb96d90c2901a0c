/* This is the checked build's data, and what its files do for each other. Two more are called from
 * outside: hooks.cpp by the runtime, instrumentation.cpp by the kernel before each access. */
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>

#include "device/backend.h"
#include "host/memory.h"
#include "run/engine.h"

namespace simt::check
{

inline uintptr_t number_of(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }
inline bool within(uintptr_t address, const void *begin, const void *end)
{
    return address - number_of(begin) < number_of(end) - number_of(begin);
}

inline const void *memory_at(uintptr_t address) { return reinterpret_cast<const void *>(address); }

inline bool writes(unsigned kind) { return kind & 1; }

inline bool is_pending(unsigned kind)
{
    return kind == proxy_write_pending || kind == copy_pending;
}

/* A pending write becomes one of these when it has happened. Nothing else may meet it before. */
inline bool ends_pending(unsigned kind) { return kind == proxy_write || kind == copy_write; }

/* Returns the kind that conflicts with the same accesses. */
inline unsigned conflict_kind(unsigned kind) { return kind <= atomic_update ? kind : kind & 1; }
inline bool reads(unsigned kind) { return !writes(kind) || kind == atomic_update; }

/* ---- shadow memory ---- */

/* A stamp says who made an access, and when. `block` numbers the blocks of all launches since the
 * program began, so a stamp from an earlier launch is recognised by its number and shadow memory
 * never has to be cleared. `time` counts the block's synchronisations: see order.cpp. */
constexpr unsigned thread_bits = 10, kind_bits = 4, narrow_bits = 1;
constexpr unsigned place_bits = 32 - thread_bits - kind_bits - narrow_bits;

struct Stamp {
    uint32_t block; /* 0: no access yet */
    uint32_t who;   /* thread in the block, kind, scope, place in the code: one word, for speed */
    uint32_t time;

    unsigned thread() const { return who & ((1u << thread_bits) - 1); }
    unsigned kind() const { return who >> thread_bits & ((1u << kind_bits) - 1); }
    bool narrow() const { return who >> (thread_bits + kind_bits) & 1; } /* atomic in its block */
    uint32_t place() const { return who >> (32 - place_bits); }
};

/* The shadow of one word, half word or byte: the last write, and two accesses since, as far apart
 * as possible (other blocks, other warps), so that a write without order conflicts with one. */
struct Cell {
    /* bit 0: locked; the rest: the launch in which the cell was split into smaller ones */
    uint32_t head;
    Stamp write;
    Stamp other[2];
};

/* A shadow covers a range of memory with a cell for every 4 bytes. A cell of which a thread touches
 * less is split into two of 2 bytes, and those into two of 1. Pages come with first use. */
struct Shadow {
    uintptr_t base = 0; /* multiple of 4 */
    size_t bytes = 0;
    Cell *plane[3] = {nullptr, nullptr, nullptr};
    /* For each word, when another plain read has nothing to add to its cell: in the launch with
     * this number (LaunchState::quiet), or in shared memory at this moment of the block or warp
     * (WarpState::quiet). From 1 to last_quiet; then it begins again, with all forgotten. */
    uint8_t *quiet = nullptr;
};

constexpr uint8_t last_quiet = 254, never_quiet = 255;

/* Compares a word's number, which others may be changing, with the two that are quiet now. */
inline bool is_quiet(const uint8_t &word, const uint8_t *const &now)
{
    const uint8_t when = __atomic_load_n(&word, __ATOMIC_RELAXED);
    return when == now[0] || when == now[1];
}

void shadow_reserve(Shadow &shadow, const void *begin, size_t bytes);
void shadow_release(Shadow &shadow);
void shadow_forget(Shadow &shadow, bool whole); /* otherwise only the numbers in `quiet` */

/* ---- regions ---- */

enum Space : unsigned { global_space, shared_space };

/* An access to a range that may be touched anywhere needs no second look. */
struct Reach {
    uintptr_t begin, end;
    Shadow *shadow;
    uintptr_t quiet; /* Shadow::quiet, less the number of the shadow's first word */
};
/* An instruction with this reach has all its accesses looked at. */
inline constexpr Reach no_reach = {0, 0, nullptr, 0};
inline Reach reach_of(uintptr_t begin, uintptr_t end, Shadow &shadow)
{
    return {begin, end, &shadow, reinterpret_cast<uintptr_t>(shadow.quiet) - shadow.base / 4};
}

/* Kernels may touch a region: one allocation, empty when freed, or the program's variables. */
struct Region {
    uintptr_t begin, end;
    Reach open;                   /* a wide part without a fence: what lies between two fences */
    const Allocation *allocation; /* null for the program's variables */
    std::vector<std::pair<uintptr_t, uintptr_t>> fences;
    std::map<uintptr_t, uintptr_t> written; /* written by the host: where pieces begin and end */
    Shadow shadow;
};

Region *find_region(uintptr_t address); /* the one that owns the address's page, or null */
Region *add_region(const void *begin, size_t bytes, const Allocation *allocation);
/* Forgets the shadows of global memory: blocks' numbers, or only Shadow::quiet's, begin again. */
void forget_shadows(bool whole);
void add_fence(const void *begin, size_t bytes);
void add_written(const void *begin, size_t bytes);
/* Returns whether no kernel wrote the memory and it still holds what the allocation left there. */
bool is_new(uintptr_t address, unsigned bytes);
void add_program_variables(); /* __device__ and __constant__ ones are variables of the program */
/* Returns whether a variable of the program's is there that is not its own (access.cpp). */
bool belongs_to_judge(uintptr_t address);

/* ---- counting ---- */

/* Counts what a request moves, in global memory (sectors, 128-byte lines) or in shared memory. */
struct Moved {
    size_t sectors, lines, wavefronts, ideal;
};

/* A place is an instruction: a place in the code, by return address, and what it does there. */
struct Place {
    const void *where;
    uint32_t number; /* the number of the place in the program: for reports */
    uint32_t local;  /* dense in this launch on this worker: for counting */
    uint32_t bytes;
    Space space;
    bool write;
};

/* A request is one execution of an instruction by a warp: who took part, and where it led. */
struct Request {
    const Place &place;
    uint32_t lanes;
    uint64_t time = 0; /* of the first lane, in a block that is traced */
    uintptr_t address[warp_size];

    Request(const Place &place, uint32_t lanes) : place(place), lanes(lanes) {}
};

/* A run is several executions by one lane, at addresses one `step` apart, as in a loop. */
struct Run {
    uintptr_t next; /* the address that would continue it; 1 where none can */
    uintptr_t step;
    size_t count;
};

/* It has all executions since its warp last met. The k-th of all lanes are a request. */
struct alignas(64) Instruction {
    const void *where = nullptr; /* as in `place`; null before its first execution */
    uintptr_t begin;             /* the beginning of what it last touched, where ... */
    size_t room;     /* ... accesses that begin less than this further on need no second look */
    uintptr_t words; /* reach->quiet */
    const uint8_t *quiet; /* the numbers of words there that are quiet now: two */
    const Reach *reach;   /* what it last touched */
    Place place;
    uint32_t lanes = 0;  /* lanes that have executed it, ... */
    uint32_t broken = 0; /* ... and lanes with earlier runs */
    /* Each lane has its last run: see Run. */
    uintptr_t next[warp_size], step[warp_size] = {};
    size_t count[warp_size] = {};
    std::vector<Run> earlier[warp_size];
    uint32_t first[warp_size];   /* the moment of its first execution: a number from begin_run() */
    std::vector<uint64_t> began; /* if traced: when the first lane made the k-th execution */

    Instruction() { std::fill_n(next, warp_size, 1); }
    Run last(unsigned lane) const { return {next[lane], step[lane], count[lane]}; }
    size_t executions(unsigned lane) const
    {
        size_t sum = count[lane];
        for (const Run &run : earlier[lane])
            sum += run.count;
        return sum;
    }
};

/* Finds the instructions of a warp by their places. Each slot has the last that was executed. */
class Recent
{
    static constexpr size_t slots = 256;
    Instruction *slot[slots];

  public:
    Recent()
    {
        static Instruction none;
        std::fill_n(slot, slots, &none);
    }
    /* A call is more than 4 bytes long. */
    Instruction *&at(const void *where) { return slot[number_of(where) % (4 * slots) / 4]; }
};

/* Adds the lane's next execution, at an address that is not Run::next. */
void begin_run(uintptr_t address, Instruction &instruction, unsigned lane);

inline void add_execution(uintptr_t address, Instruction &instruction, unsigned lane)
{
    if (instruction.next[lane] != address)
        return begin_run(address, instruction, lane);
    instruction.next[lane] += instruction.step[lane];
    instruction.count[lane]++;
}

/* ---- one worker ---- */

/* For each thread of a block, a time: the accesses before it are known. */
typedef std::vector<uint32_t> Times;

/* For each object, how many of its first publications a thread knows. They are few, mostly none. */
struct Seen : std::vector<std::pair<const struct SyncObject *, size_t>> {
    size_t &length(const SyncObject *object) /* 0 where it was none */
    {
        for (auto &[known, publications] : *this)
            if (known == object)
                return publications;
        return emplace_back(object, 0).second;
    }
};

/* One thread made this known at one time: per thread of its block, accesses before a time. */
struct Publication {
    uint32_t thread;
    Times far;     /* to other blocks, with what its block published here before */
    Times near;    /* to its own block, to which smaller fences reach */
    Seen seen;     /* what it knew of others' publications, ... */
    Seen all_seen; /* ... with what those before it on this object knew */
};

/* Threads synchronise on this address. Between blocks it keeps every publication of the launch, so
 * that who looked early does not know what came later; within a block one number per thread. */
struct SyncObject {
    std::deque<Publication> publications;
    std::map<uint32_t, std::vector<size_t>> of_block; /* which of them are a block's */
    Times known;
    Seen seen;
    uint32_t cluster_phase = 0;
};

/* A thread keeps this if it has looked at what others published. */
struct Learnt {
    /* what a fence of any scope, or a barrier, makes known: of its own block and of others */
    Times near;
    Seen near_seen;
    /* publications by which it was found to know something of a block: the last ones */
    std::pair<uint32_t, const Publication *> found[8] = {};
    unsigned next = 0;
};

/* Known after a cluster's barrier: per thread of each block, by rank, accesses before a time. */
struct ClusterKnowledge {
    Times known[max_cluster_blocks];
    Seen seen;
};

struct ClusterState {
    /* This is for the phase in progress, and includes everything from the phase before. */
    ClusterKnowledge arriving;
    ClusterKnowledge completed[2]; /* the last two phases, by parity: no thread is further behind */
};

struct WarpState {
    Warp *warp;
    uint32_t full_time; /* every lane knows what every lane did before */
    uint8_t quiet[2];   /* see Shadow; one for the block, one for the warp */
    Site last_barrier;  /* __syncwarp or a barrier of the block */
    std::vector<std::unique_ptr<Instruction>> instructions; /* by Place::local */
    std::vector<uint32_t> touched; /* those with requests since the whole warp came together */
    Recent recent;
    /* It says how often each lane loaded from shared memory before, if anything asked. */
    bool asked_for_loads = false;
    size_t shared_loads[warp_size];
    /* They say how often each of these lanes loaded from global memory and not from shared. */
    uint32_t ahead = 0;
    size_t loads_ahead[warp_size];

    BlockState *block() const { return warp->block->checked; }
};

/* By a look, an atomic or volatile operation, a block may learn what others did. */
struct Look {
    const void *address; /* null for none */
    uint32_t place;
};

/* It has what a thread did and learnt. Most accesses and barriers touch its first line only. */
struct alignas(64) ThreadState {
    BlockState *block;
    WarpState *warp;
    Thread *thread;
    uint32_t number, lane;
    uint32_t time; /* stamped on what the thread does now */

    /* an atomic or volatile read of this address, whose value is used from now on */
    const void *look_at = nullptr;
    bool look_at_global = false;
    bool unfenced_write = false; /* wrote global memory since its last fence for the device */
    bool narrow = false;         /* makes an atomic operation of the block's scope */
    /* how often it has come out of the cluster's barrier, or knows of a thread that has */
    uint32_t cluster_phase = 0;
    uintptr_t copied_struct = 0; /* while it reads one: where the struct begins */
    /* the address of its last access, if that was an atomic or volatile read ... */
    const void *polled = nullptr;
    unsigned polls = 0; /* ... and how many more of the same went before */

    /* what its last fence of the device's scope covers, and its last fence of any */
    uint32_t fence_time = 0, fence_full = 0, fence_warp = 0, near_time = 0, near_warp = 0;
    const void *published_on = nullptr; /* where it last published that, so as not to repeat it */

    /* per thread of the block; empty while warp and block times say it all */
    Times known = {};
    Seen seen = {};     /* publications of other blocks */
    Seen glimpsed = {}; /* the same, with no fence of the device's scope since */
    std::unique_ptr<Learnt> learnt = {};
};

/* Nothing orders two accesses, and the second block last looked at this: see other_look. */
struct Race {
    uintptr_t address;
    Stamp first, second;
    Look look;
};

/* An overwrite is a write over another thread's: a race unless it stores what was there already. */
struct Overwrite {
    Race race;
    unsigned bytes;
    uint32_t before;
};

/* An access that may have to be reported. */
struct Touch {
    uintptr_t address;
    unsigned bytes;
    bool write;
    const void *where;
};

/* The first read, up to the next barrier, of shared memory that no thread had written. */
struct Uninitialised {
    ThreadState *thread; /* null when there is none */
    Touch read;
};

/* A guess is a plain read of a word that others change by atomic operations. When the same thread
 * goes on to a compare-and-swap there, that operation confirms the guess, and there is no race. */
struct Guess {
    Race race;            /* between the read and another access */
    bool noted_by_reader; /* not only by a writer that found the read */
};

/* A worker knows this about its block. */
struct BlockHistory {
    Block *block;
    LaunchState *launch;
    uint32_t number;         /* as in Stamp::block */
    uint32_t now = 1;        /* synchronisations so far */
    uint32_t full_time = 1;  /* each thread of the block knows what all did before this */
    uint32_t clean_full = 0; /* and everything before this was fenced */
    bool partial = false;    /* some ThreadState::known is in use */
    bool glimpses = false;   /* and some Learnt::near */
    Seen seen = {};
    Times grid_known = {};                           /* grid_time when it last left grid.sync() */
    std::map<const void *, SyncObject> objects = {}; /* in shared memory, or of the runtime */
    uint32_t cluster_phase = 0;                      /* as in ThreadState: known to all */
    /* the last access of each thread of the cluster's other blocks to this one's shared memory */
    std::map<std::pair<uint32_t, unsigned>, Stamp> visits = {};
    Times proxy_fenced = {}; /* per thread: accesses before it are fenced */

    Uninitialised uninitialised = {};
    Look looks[2] = {}; /* the last two at different addresses */
    /* the last atomic or volatile operation, who made it, and full_time then */
    Look last_look = {};
    uint32_t last_looker = 0, last_look_time = 0;
    Site last_barrier = {nullptr, 0};       /* its file is null before the first */
    std::unique_lock<std::mutex> held = {}; /* while the running thread makes an atomic operation */
    std::vector<Overwrite> overwrites = {}; /* made by one thread, not yet settled */

    struct counters counted = {};       /* what was counted in this block */
    struct BlockTrace *trace = nullptr; /* null unless it is traced */
};

/* This adds what is kept for the worker's next block. */
struct BlockState : BlockHistory {
    ThreadState thread[max_block_threads];
    WarpState warp[max_warps];

    /* the worker's thread-local storage: static shared memory lies on both sides of the dynamic */
    Shadow shared;
    Reach static_before, dynamic, static_behind;
    uint8_t moments; /* the last number given to some WarpState::quiet */

    std::unordered_map<uintptr_t, Place> places; /* by what find_place is asked for */
    uint32_t places_launch;                      /* the launch that they are numbered for */
    uint32_t restarts; /* of blocks' numbers, when it last began a block */
};

struct LaunchState {
    Launch *launch;
    uint32_t first_block, blocks; /* their numbers, and how many */
    uint32_t number;              /* 31 bits, for Cell::head */
    bool has_shared = false;      /* its blocks have shared memory */
    /* see Shadow; never_quiet as soon as a block of the launch can learn something of another */
    uint8_t quiet[2] = {};           /* the same twice */
    std::atomic<bool> fenced{false}; /* a thread executed a fence: publications are possible */
    std::atomic<bool> published{false};
    Times grid_time = {}; /* cooperative: when blocks last came to grid.sync() */
    std::mutex lock = {}; /* guards everything below */
    std::map<const void *, SyncObject> objects = {}; /* in global memory */
    /* They are not yet confirmed. The key is the reader's block, its thread, and the word. */
    std::map<std::tuple<uint32_t, unsigned, uintptr_t>, Guess> guesses = {};
    std::atomic<bool> guessed{false}; /* there have been some */
    /* what SIMT_IGNORE asks for */
    bool passes_races = false, passes_uninitialised = false, passes_volatile = false;
    unsigned long long passed = 0;
    std::string first_passed = {};
    /* The kernel freed these, but other threads may still be looking at their shadows. */
    std::vector<Region *> freed = {};
    struct counters counted = {};
    std::vector<unsigned long long> wave_accesses = {}; /* of each wave's busiest block */
    struct LaunchTrace *trace = nullptr;                /* null unless a trace is written */
};

/* Returns the stamp that an access leaves behind. Above its kind may stand that it is narrow. */
inline Stamp stamp_of(const ThreadState *thread, unsigned kind, const Place &place)
{
    const uint32_t who = thread->number | kind << thread_bits | place.number << (32 - place_bits);
    return Stamp{thread->block->number, who, thread->time};
}

/* Returns the running thread's state; null outside kernels. */
inline ThreadState *current_thread_state()
{
    return current_thread ? current_thread->checked : nullptr;
}

/* ---- access.cpp: whose memory is an address, and may the kernel touch it there ---- */

/* Handles an access of at most 16 bytes, by a kernel or the host. Returns if it is allowed. */
void on_access(const void *address, unsigned bytes, unsigned kind, const void *where);
void look_at_next(ThreadState *thread); /* its next access needs a second look */
/* Returns what the block last looked at by an atomic or volatile operation, except the word. */
Look other_look(const BlockState *block, uintptr_t address);
/* Handles any number of bytes, with as many accesses as the hardware would need. */
void on_range(const void *address, size_t bytes, unsigned kind, const void *where);
int cluster_rank_of(const BlockState *block, uint32_t number); /* -1: not of its cluster */
/* The running thread stores in the shared memory of `home`, or uses an mbarrier there. */
void store_in_cluster(BlockState *home, uintptr_t address, unsigned bytes, unsigned kind,
                      const void *where);
/* It comes before the last thread returns: none that could still come may have visited. */
void settle_visits(BlockState *block);
/* Returns the same place in the calling worker's shared memory, and which block owns it. */
uintptr_t own_place(uintptr_t address, const BlockState **home);

/* ---- count.cpp: requests, sectors, wavefronts ---- */

/* `bytes` is a power of two up to 16. */
const Place &find_place(BlockState *, const void *where, Space, bool write, unsigned bytes);
/* `reach` is where the next accesses by the same instruction need no second look. */
void count_access(ThreadState *thread, const Place &place, uintptr_t address, const Reach &reach);
void close_round(WarpState *warp); /* the whole warp came together */
/* Counts this many requests by `lanes` lanes in all, which move `bytes` in all. */
void count_requests(struct counters &counted, Space space, bool write, size_t lanes,
                    size_t requests, size_t bytes, const Moved &moved);
void add_counters(struct counters *sum, const struct counters &part);
/* Adds a block that has ended to its launch, whose lock the caller holds. */
void add_block(LaunchState *launch, const BlockState *block);
/* Returns how often the thread has loaded from shared memory since its warp first asked. */
unsigned long long shared_loads_of(const ThreadState *thread);

/* ---- shadow.cpp: who touched each word last: races, reads of memory never written ---- */

/* Handles, and counts, a plain access in reach of an instruction since the warp last met. */
template <unsigned bytes, AccessKind kind>
void on_known_access(uintptr_t address, Instruction &instruction, ThreadState *thread);
/* `home` is the block that owns shared memory, or null. Returns false for threadIdx and so on. */
bool shadow_access(ThreadState *thread, BlockState *home, Shadow &shadow, uintptr_t address,
                   unsigned bytes, unsigned kind, const Place &place);
void settle_overwrites(BlockState *block);    /* before the running thread does anything else */
void settle_uninitialised(BlockState *block); /* at a barrier and at the block's end */
/* The thread has made a compare-and-swap there. */
void confirm_guesses(const ThreadState *thread, uintptr_t address, size_t bytes);
/* A guess that no compare-and-swap has confirmed is a race: in shared memory at the end of the
 * block, in global memory at the end of the launch, when `block` is null. */
void settle_guesses(LaunchState *launch, const BlockState *block);

/* ---- order.cpp: which accesses are ordered before which ---- */

/* Gives the whole block numbers that no word of its shared memory has as its `quiet`. */
void begin_moment(BlockState *block);
/* `known` has for each thread of the stamp's block the accesses before a time. */
inline bool covers(const Times &known, const Stamp &stamp)
{
    return stamp.thread() < known.size() && stamp.time < known[stamp.thread()];
}
bool ordered_before(const Stamp &earlier, ThreadState *thread);
/* Is a fence missing before what the thread does now, or of the other block one for the device? */
bool would_be_ordered_by_fence(const Stamp &earlier, const ThreadState *thread);
bool would_be_ordered_by_wider_fence(const Stamp &earlier, const ThreadState *thread);
void order_barrier(BlockState *block);
void order_warp(WarpState *warp, uint32_t lanes);
void order_fence(ThreadState *thread, bool narrow);
/* Comes before an atomic or volatile access, which may publish what a fence covered. What it sees
 * of others' publications is settled when the thread next does anything (order_look). */
void order_atomic(ThreadState *thread, const void *address, bool global, bool writes);
void order_look(ThreadState *thread);
void order_release(ThreadState *thread, const void *object, const Block &home);
void order_proxy_fence(ThreadState *thread);
void order_acquire(ThreadState *thread, const void *object);
/* Returns how often the barrier of its cluster has opened, as far as the thread knows. */
inline uint32_t known_cluster_phase(const ThreadState *thread)
{
    return std::max(thread->cluster_phase, thread->block->cluster_phase);
}
/* At the barrier of its cluster, the thread arrives (relaxed: without publishing), and goes on. */
void arrive_at_cluster(ThreadState *thread, bool relaxed);
void leave_cluster_barrier(ThreadState *thread);

/* ---- source.cpp: addresses in the code -> lines ---- */

uint32_t place_number(const void *where);
const void *place_address(uint32_t number);
std::string source_line(const void *where); /* "tiled.cu:33"; "" without debug information */
/* It is a part of the program, or of a library linked with it. The program's come first. */
struct Segment {
    uintptr_t base; /* what the object's own addresses are relative to */
    uintptr_t begin, end;
    bool writable;
};
const std::vector<Segment> &segments();
bool in_segment(uintptr_t address, bool writable);

/* ---- names of arrays: of arguments by report.cpp, of what is described by trace.cpp ---- */

/* An argument is a device pointer that the kernel was given. */
struct Argument {
    uintptr_t pointer;
    std::string name;     /* "Q", or "argument 2"; empty where it would be a guess */
    size_t element_bytes; /* or 0 */
};
typedef std::vector<Argument> Arguments;

/* ---- trace.cpp: what is counted, event by event, in a file ---- */

void trace_launch_begin(LaunchState *launch);
void trace_launch_end(LaunchState *launch);
void trace_block_begin(BlockState *block);
void trace_block_end(BlockState *block);
void trace_report(const char *text);
void trace_describe(const void *begin, size_t bytes, const struct description &about);
/* Copies what backend_describe() said of the array at an address, or next to it, in its region. */
bool find_described(const Region *region, uintptr_t address, Argument *array);
void trace_forget(const Region *region); /* it is freed, or no longer registered */
/* From here on all is only for blocks that are traced. Begins a new moment, for `warp` or null. */
uint64_t trace_time(const BlockState *block, const WarpState *warp);
void trace_request(const WarpState *warp, const Request &request, const Moved &moved);
void trace_note(const ThreadState *thread, const char *what, const void *object,
                unsigned long long value, unsigned long long size, const void *where);
void trace_round(const WarpState *warp); /* see close_round */
/* It traces a barrier of the block, a cluster or the grid. `id` is a named one's, or -1. */
void trace_barrier(const BlockState *block, const char *which, Site site, int id);
void trace_meeting(const WarpState *warp, const Meeting &meeting, Site site);
void trace_box(const ThreadState *thread, const BoxCopy &copy, const void *where);

/* ---- waits.cpp: does the source have a wait, in the wrong place ---- */

/* A wait is missing between two lines, or after the later, before the earlier comes round again. */
struct MissingWait {
    int before, after;
    bool comes_round;
    bool of_warp; /* a __syncwarp() would do */
};

/* Returns the line of a barrier in the same loop or kernel that is of no use there; 0 for none. */
int idle_barrier(const std::string &file, const MissingWait &missing, const Arguments &arguments);
/* A line has read what the `own` thread, or another, copied and (`pending`) has not waited for. */
struct CopyRead {
    bool own, pending;
};
/* Says what is wrong with the wait beside that line; "" where there is none. */
std::string misplaced_copy_wait(const std::string &file, int read, const CopyRead &is);

/* ---- report.cpp: the sentences ---- */

/* Returns the device pointers among the launch's arguments, in the parameters' order. */
Arguments pointer_arguments(const LaunchState *launch);

/* Both return if SIMT_IGNORE says so. A race ends the block in which the second access was made,
 * unless that is null because it may be over. */
void report_race(LaunchState *launch, BlockState *block, const Race &race);
void report_uninitialised(const Uninitialised &found);
void tell_what_passed(const LaunchState *launch); /* on stderr, once for each kernel */
/* `how` says what is missing for the access to the shared memory of another block. */
[[noreturn]] void report_visit(BlockState *block, const BlockState *home, const Stamp &visit,
                               const char *how);
[[noreturn]] void report_unfenced(const ThreadState *thread, uintptr_t address, const Stamp &write,
                                  const Stamp &read);
[[noreturn]] void report_touch(const ThreadState *thread, const Touch &touch);
/* Gives the text, and says which thread it was. */
[[noreturn]] void blame(const ThreadState *thread, const std::string &text,
                        cudaError_t error = cudaErrorLaunchFailure);
/* Reports an access by host code if it is to device memory. */
void report_host_access(const Touch &touch);

/* ---- hooks.cpp: null, except in programs with exit.cpp ---- */

extern void (*launch_listener)(const Launch &launch, const struct counters &counted);

} /* namespace simt::check */
