/* Shadow memory remembers who touched each word last. It finds races (two accesses, one a write,
 * that nothing orders) and reads of memory that was never written, by the block if it is shared. */
#include "check/check.h"
#include <sched.h>
#include <sys/mman.h>

namespace simt::check
{

/* One mapping holds `quiet`, up to a whole page, and the planes behind it. */
static size_t quiet_bytes(const Shadow &shadow)
{
    return (shadow.bytes / 4 + 4096) & ~size_t{4095};
}

static size_t mapped_bytes(const Shadow &shadow)
{
    return quiet_bytes(shadow) + 7 * (shadow.bytes / 4 + 1) * sizeof(Cell);
}

void shadow_reserve(Shadow &shadow, const void *begin, size_t bytes)
{
    shadow.base = number_of(begin) & ~uintptr_t{3};
    shadow.bytes = (number_of(begin) + bytes - shadow.base + 3) & ~size_t{3};
    void *memory = mmap(nullptr, mapped_bytes(shadow), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr,
                "simt: no address space to watch %zu bytes: races there will not be found\n",
                bytes);
        shadow = Shadow();
        return;
    }
    shadow.quiet = static_cast<uint8_t *>(memory);
    Cell *plane = reinterpret_cast<Cell *>(shadow.quiet + quiet_bytes(shadow));
    for (unsigned level = 0; level < 3; level++) {
        shadow.plane[level] = plane;
        plane += (shadow.bytes / 4 + 1) << level;
    }
    /* Otherwise each small page costs two faults, a read's, then a write's. It is not done for
     * parts of words, which are few, nor for large memory, of which little may be touched. */
    if (bytes <= size_t{64} << 20)
        madvise(memory,
                size_t(reinterpret_cast<char *>(shadow.plane[1]) - static_cast<char *>(memory)),
                MADV_HUGEPAGE);
}

void shadow_forget(Shadow &shadow, bool whole)
{
    if (shadow.quiet)
        madvise(shadow.quiet, whole ? mapped_bytes(shadow) : quiet_bytes(shadow), MADV_DONTNEED);
}

void shadow_release(Shadow &shadow)
{
    if (shadow.quiet)
        munmap(shadow.quiet, mapped_bytes(shadow));
    shadow = Shadow();
}

/* Workers run blocks side by side, so a cell of global memory is locked while it is examined. */
static inline bool try_lock(Cell &cell)
{
    return !(__atomic_fetch_or(&cell.head, 1u, __ATOMIC_ACQUIRE) & 1);
}

static void lock(Cell &cell)
{
    for (unsigned tries = 1; !try_lock(cell); tries++)
        if (tries % 64 == 0)
            sched_yield();
}

static void unlock(Cell &cell) { __atomic_store_n(&cell.head, cell.head & ~1u, __ATOMIC_RELEASE); }

struct Access {
    ThreadState *thread;
    Stamp stamp;
    const BlockState *home; /* the block that owns the shared memory; null for global memory */
    /* Only these blocks' stamps count, by number: the blocks of this launch, or this block ... */
    uint32_t first_block, blocks;
    bool cluster; /* ... and the others of its cluster */
    /* Cell::head holds this when the cell was split in this launch, or this block. */
    uint32_t split_mark;
};

static inline Access access_of(ThreadState *thread, const BlockState *home, const Stamp &stamp)
{
    const LaunchState *launch = thread->block->launch;
    if (home)
        return {thread,           stamp, home, home->number, 1, launch->launch->cluster_blocks > 1,
                home->number << 1};
    return {
        thread, stamp, nullptr, launch->first_block, launch->blocks, false, launch->number << 1};
}

static inline bool live(const Stamp &stamp, const Access &access)
{
    return stamp.block - access.first_block < access.blocks ||
           (access.cluster && cluster_rank_of(access.home, stamp.block) >= 0);
}

static bool same_thread(const Stamp &a, const Stamp &b)
{
    return a.block == b.block && a.thread() == b.thread();
}

static bool same_warp(const Stamp &a, const Stamp &b)
{
    return a.block == b.block && a.thread() / warp_size == b.thread() / warp_size;
}

static bool conflicts(const Stamp &a, const Access &access)
{
    unsigned one = conflict_kind(a.kind()), two = conflict_kind(access.stamp.kind());
    if (!writes(one) && !writes(two))
        return false;
    const bool two_blocks = a.block != access.stamp.block;
    if (one >= atomic_read && two >= atomic_read)
        return two_blocks && (a.narrow() || access.stamp.narrow());
    if (one >= volatile_read && two >= volatile_read) {
        const bool one_warp = same_warp(a, access.stamp);
        if (two_blocks || (!access.home && !one_warp))
            return !access.thread->block->launch->passes_volatile;
        /* Within a block flags in shared memory are polled by volatile accesses. But within a warp
         * code from before Volta used them as lanes ran in lock step, and that is a race now. */
        bool both_volatile = one < atomic_read && two < atomic_read;
        return both_volatile && access.home && one_warp;
    }
    return true;
}

static bool precedes(const Stamp &earlier, const Access &access)
{
    return same_thread(earlier, access.stamp) || ordered_before(earlier, access.thread);
}

/* Keeps a read as one of the two that stand for all since the last write, but replaces reads that
 * are over, because they came before it. Returns whether neither of the two is over. */
template <class Over> static inline bool keep(Cell &cell, const Stamp &stamp, const Over &is_over)
{
    Stamp &a = cell.other[0], &b = cell.other[1];
    if (is_over(a)) {
        a = stamp;
        return false;
    }
    if (is_over(b) || (a.block == b.block &&
                       (stamp.block != a.block || (same_warp(a, b) && !same_warp(a, stamp)))))
        b = stamp;
    return true;
}

/* Atomic and volatile accesses to one place come in some order, each after those that it saw. So a
 * thread that has read the place, without a race, since the last such write is ordered after all of
 * them: the last block to count itself may set the counter back with a plain store. */
static bool has_seen_last_write(const Cell &cell, const Access &access)
{
    for (const Stamp &other : cell.other)
        if (live(other, access) && precedes(other, access))
            return true;
    return false;
}

static bool races(const Cell &cell, const Stamp &earlier, const Access &access)
{
    /* A copy that another block started ends in this block's name. */
    if (is_pending(earlier.kind()) && ends_pending(access.stamp.kind()))
        return false;
    if (!live(earlier, access) || !conflicts(earlier, access) || precedes(earlier, access))
        return false;
    return &earlier != &cell.write || conflict_kind(earlier.kind()) < volatile_read ||
           !has_seen_last_write(cell, access);
}

/* Looks for a conflict, then adds the access to the cell's history. */
static bool touch(Cell &cell, const Access &access, Stamp *enemy)
{
    bool conflict = false;
    for (const Stamp *earlier : {&cell.write, &cell.other[0], &cell.other[1]})
        if (races(cell, *earlier, access)) {
            /* A write over a write may be harmless; a read on one side is not. */
            if (!conflict || enemy->kind() == plain_write)
                *enemy = *earlier;
            conflict = true;
        }
    if (live(cell.write, access) && is_pending(cell.write.kind()) &&
        !ends_pending(access.stamp.kind())) {
        *enemy = cell.write; /* whatever orders the two, the copy may come at any time */
        conflict = true;
    }
    if (writes(access.stamp.kind())) {
        cell.write = access.stamp;
        cell.other[0].block = cell.other[1].block = 0;
    } else {
        keep(cell, access.stamp,
             [&](const Stamp &other) { return !live(other, access) || precedes(other, access); });
    }
    return conflict;
}

static bool is_split(const Cell &cell, const Access &access)
{
    return (cell.head & ~1u) == access.split_mark;
}

/* ---- guesses ---- */

static bool is_atomic_write(const Stamp &stamp)
{
    return stamp.kind() == atomic_write || stamp.kind() == atomic_update;
}

/* Returns whether a conflict may be a guess: not for a thread that reads again before it has
 * confirmed its last. What the writer noted before is no second read. */
static bool may_be_guess(LaunchState *launch, const Race &race)
{
    const auto is_read = [](const Stamp &s) {
        return s.kind() == plain_read || s.kind() == volatile_read;
    };
    const bool reader = is_read(race.second) && is_atomic_write(race.first);
    const bool writer = is_read(race.first) && is_atomic_write(race.second);
    if (!reader && !writer)
        return false;
    const Stamp &read = reader ? race.second : race.first;
    const auto key = std::make_tuple(read.block, read.thread(), race.address & ~uintptr_t{3});
    std::lock_guard<std::mutex> hold(launch->lock);
    launch->guessed = true;
    Guess &noted = launch->guesses.emplace(key, Guess{race, false}).first->second;
    return writer || !std::exchange(noted.noted_by_reader, true);
}

void confirm_guesses(const ThreadState *thread, uintptr_t address, size_t bytes)
{
    LaunchState *launch = thread->block->launch;
    if (!launch->guessed)
        return;
    std::lock_guard<std::mutex> hold(launch->lock);
    for (uintptr_t word = address & ~uintptr_t{3}; word < address + bytes; word += 4)
        launch->guesses.erase({thread->block->number, thread->number, word});
}

void settle_guesses(LaunchState *launch, const BlockState *block)
{
    if (!launch->guessed)
        return;
    std::unique_lock<std::mutex> hold(launch->lock);
    const auto guesses = launch->guesses;
    hold.unlock();
    for (const auto &[key, guess] : guesses) {
        const auto [reader, thread, address] = key;
        const bool global = find_region(address);
        if (block ? !global && reader == block->number : global)
            report_race(launch, nullptr, guess.race);
    }
}

static void conflict_found(const Access &access, uintptr_t address, unsigned bytes,
                           const Stamp &enemy)
{
    BlockState *block = access.thread->block;
    const Race race = {address, enemy, access.stamp, other_look(block, address)};
    if (may_be_guess(block->launch, race))
        return;
    if (enemy.kind() != plain_write || access.stamp.kind() != plain_write)
        return report_race(block->launch, block, race);
    /* Both write. If the second stores what is there already, that is harmless: settled later. */
    Overwrite overwrite = {race, bytes, 0};
    memcpy(&overwrite.before, memory_at(address), bytes);
    if (!block->overwrites.empty() && !same_thread(block->overwrites[0].race.second, access.stamp))
        settle_overwrites(block);
    block->overwrites.push_back(overwrite);
    look_at_next(access.thread);
}

void settle_overwrites(BlockState *block)
{
    if (block->overwrites.empty())
        return;
    for (const Overwrite &each : std::exchange(block->overwrites, {}))
        if (memcmp(&each.before, memory_at(each.race.address), each.bytes) != 0)
            report_race(block->launch, block, each.race);
}

static void note_uninitialised(ThreadState *thread, const Touch &read)
{
    Uninitialised &noted = thread->block->uninitialised;
    if (!noted.thread)
        noted = {thread, read};
    else if (noted.thread == thread && noted.read.address == read.address &&
             noted.read.where == read.where)
        /* A loop may wait for something else that follows from it. */
        settle_uninitialised(thread->block);
}

void settle_uninitialised(BlockState *block)
{
    const Uninitialised found = std::exchange(block->uninitialised, {});
    if (found.thread)
        report_uninitialised(found);
}

/* This is the part of [begin, end) that lies in one cell of `level`. Offsets count from the
 * shadow's base. What went wrong is returned instead of reported, because the word is locked. */
struct Outcome {
    bool uninitialised = false, conflict = false, unfenced = false;
    uintptr_t offset = 0;
    unsigned bytes = 0;
    Stamp enemy = {};
};

/* Returns whether the asynchronous proxy reads what a thread wrote, with no proxy fence since. */
static bool needs_proxy_fence(const Cell &cell, const Access &access)
{
    unsigned kind = cell.write.kind();
    return access.stamp.kind() == proxy_read && live(cell.write, access) && kind != proxy_write &&
           kind != proxy_write_pending && !covers(access.thread->block->proxy_fenced, cell.write);
}

static bool partly_written(const Shadow &shadow, unsigned level, uintptr_t index,
                           const Access &access)
{
    const Cell &cell = shadow.plane[level][index];
    if (level < 2 && is_split(cell, access))
        return partly_written(shadow, level + 1, 2 * index, access) ||
               partly_written(shadow, level + 1, 2 * index + 1, access);
    return live(cell.write, access);
}

/* Touches the whole of a cell that is not split; `offset` counts from the shadow's base. */
static inline void touch_whole(Cell &cell, const Shadow &shadow, uintptr_t offset, unsigned size,
                               const Access &access, Outcome *outcome)
{
    if (reads(access.stamp.kind()) &&
        (access.home ? !live(cell.write, access)
                     : cell.write.block == 0 && is_new(shadow.base + offset, size))) {
        outcome->uninitialised = true;
        outcome->offset = offset;
    }
    if (access.home && needs_proxy_fence(cell, access)) {
        outcome->unfenced = true;
        outcome->offset = offset;
        outcome->enemy = cell.write;
    }
    Stamp enemy = {};
    if (touch(cell, access, &enemy) && !outcome->conflict) {
        outcome->conflict = true;
        outcome->offset = offset;
        outcome->bytes = size;
        outcome->enemy = enemy;
    }
}

static void visit(Shadow &shadow, unsigned level, uintptr_t index, uintptr_t begin, uintptr_t end,
                  const Access &access, Outcome *outcome)
{
    Cell &cell = shadow.plane[level][index];
    unsigned size = 4 >> level;
    uintptr_t offset = index * size;
    bool whole = begin <= offset && offset + size <= end;
    bool split = level < 2 && is_split(cell, access);

    if (whole && !split) {
        touch_whole(cell, shadow, offset, size, access, outcome);
        return;
    }

    Cell *part = &shadow.plane[level + 1][2 * index];
    if (!split) {
        for (unsigned i = 0; i < 2; i++) {
            part[i] = cell;
            part[i].head = 0;
        }
        cell.head = access.split_mark | (cell.head & 1);
    }
    bool uninitialised_before = outcome->uninitialised;
    for (uintptr_t i = 0; i < 2; i++) {
        uintptr_t from = offset + i * size / 2;
        if (begin < from + size / 2 && from < end)
            visit(shadow, level + 1, 2 * index + i, begin, end, access, outcome);
    }
    /* A word with a hole was read whole: the hole is the padding of a struct. */
    if (level == 0 && whole && partly_written(shadow, level, index, access))
        outcome->uninitialised = uninitialised_before;
    if (writes(access.stamp.kind()))
        cell.write = access.stamp; /* a part: for later launches it is no longer new */
    if (whole && writes(access.stamp.kind())) {
        /* The parts have one history again. */
        cell.head &= 1;
        cell.other[0].block = cell.other[1].block = 0;
    }
}

/* ---- the usual accesses ---- */

/* Handles a plain access to a whole word that comes after the last write, by a thread that learns
 * of others only through barriers of its block and warp. Otherwise returns false at once. */
template <bool global> __attribute__((always_inline)) static inline bool
usual_access(Cell &cell, uint8_t &quiet, const Stamp &stamp, bool write, const ThreadState *thread)
{
    const BlockState *block = thread->block;
    const LaunchState *launch = block->launch;
    const uint32_t block_time = block->full_time, warp_time = thread->warp->full_time;
    const auto is_live = [=](const Stamp &earlier) {
        return global ? earlier.block - launch->first_block < launch->blocks
                      : earlier.block == stamp.block;
    };
    const auto precedes = [=](const Stamp &earlier) {
        return (!global || earlier.block == stamp.block) &&
               (earlier.time < block_time || same_thread(earlier, stamp) ||
                (earlier.time < warp_time && same_warp(earlier, stamp)));
    };
    const auto is_settled = [=](const Stamp &earlier) {
        return !is_live(earlier) || (earlier.kind() <= atomic_update && precedes(earlier));
    };
    Stamp &a = cell.other[0], &b = cell.other[1];
    if ((cell.head & ~1u) == (global ? launch->number : stamp.block) << 1)
        return false; /* the cell is split */
    const bool written = is_live(cell.write);
    if (!is_settled(cell.write))
        return false;
    if (write) {
        if ((!global && cell.write.block == 0) || !is_settled(a) || !is_settled(b))
            return false; /* shared memory that was never written: it may be no variable */
        cell.write = stamp;
        a.block = b.block = quiet = 0;
        return true;
    }
    if (!global && !written)
        return false; /* uninitialised */
    const auto is_over = [=](const Stamp &other) { return !is_live(other) || precedes(other); };
    if (!keep(cell, stamp, is_over))
        return true;
    /* A write without order conflicts with one of two blocks, warps or lanes. */
    if (global) {
        const uint8_t now = launch->quiet[0];
        if (a.block != b.block && !written && now != never_quiet)
            quiet = now;
    } else if (cell.write.time < block_time) {
        if (!same_warp(a, b))
            quiet = thread->warp->quiet[0];
        else if (same_warp(a, stamp))
            quiet = thread->warp->quiet[1];
    }
    return true;
}

/* Returns one flag per word of thread-local storage; none in a program without symbols. */
static std::vector<bool> words_of_variables()
{
    const size_t end = size_t(worker->shared_end - worker->shared_begin);
    size_t begin = end, bytes = 0;
    std::vector<bool> words(end / 4 + 1);
    while (begin > 0 && !shared_variable_before(begin - 1, &begin, &bytes).empty())
        std::fill_n(words.begin() + ptrdiff_t(begin / 4), (begin % 4 + bytes + 3) / 4, true);
    return begin < end ? words : std::vector<bool>();
}

/* Returns whether the address is in what the linker left free between static arrays. */
static bool outside_variables(uintptr_t address)
{
    static const std::vector<bool> words = words_of_variables();
    return !words.empty() && !within(address, worker->dynamic_begin, worker->dynamic_end) &&
           !words[(address - number_of(worker->shared_begin)) / 4];
}

/* In a struct that is copied, words that no thread wrote may be padding, but not the first. */
static bool is_padding(const ThreadState *thread, uintptr_t address)
{
    return thread->copied_struct != 0 && address - thread->copied_struct >= 4;
}

/* Words of an access read before anything wrote them: if only some, maybe padding of a struct. */
struct Blank {
    unsigned words = 0;
    uintptr_t address = 0; /* the first */
};

static __attribute__((noinline)) bool unusual_access(ThreadState *thread, BlockState *home,
                                                     Shadow &shadow, uintptr_t index,
                                                     uintptr_t address, unsigned bytes,
                                                     const Stamp &stamp, const void *where,
                                                     Blank &blank)
{
    const Access access = access_of(thread, home, stamp);
    const uintptr_t begin = address - shadow.base;
    Cell &cell = shadow.plane[0][index];
    if (!home) {
        lock(cell);
    } else if (cell.write.block == 0 && cell.other[0].block == 0) { /* never touched */
        if (is_builtin(memory_at(address)))
            return false;
        if (outside_variables(own_place(shadow.base + index * 4, nullptr)))
            report_touch(thread,
                         Touch{own_place(address, nullptr), bytes, writes(stamp.kind()), where});
    }
    if (writes(stamp.kind()))
        shadow.quiet[index] = 0;
    Outcome outcome;
    visit(shadow, 0, index, begin, begin + bytes, access, &outcome);
    if (!home)
        unlock(cell);
    const uintptr_t place = shadow.base + outcome.offset;
    if (outcome.uninitialised && !is_padding(thread, place) && blank.words++ == 0)
        blank.address = place;
    if (outcome.conflict)
        conflict_found(access, place, outcome.bytes, outcome.enemy);
    else if (outcome.unfenced)
        report_unfenced(thread, place, outcome.enemy, stamp);
    return true;
}

template <bool global>
__attribute__((always_inline)) static inline bool usual_word(Shadow &shadow, uintptr_t index,
                                                             const Stamp &stamp, bool write,
                                                             const ThreadState *thread)
{
    Cell &cell = shadow.plane[0][index];
    if (global && !write && cell.write.block == 0 &&
        *reinterpret_cast<const uint32_t *>(shadow.base + index * 4) == UINT32_MAX)
        return false; /* it may be new */
    if (global)
        __builtin_prefetch(&cell + 4, 1); /* the next threads' words */
    if (global && !try_lock(cell))
        return false; /* what can wait is done again */
    const bool done = usual_access<global>(cell, shadow.quiet[index], stamp, write, thread);
    if (global)
        unlock(cell);
    return done;
}

bool shadow_access(ThreadState *thread, BlockState *home, Shadow &shadow, uintptr_t address,
                   unsigned bytes, unsigned kind, const Place &place)
{
    const LaunchState *launch = thread->block->launch;
    const Stamp stamp = stamp_of(thread, kind, place);
    /* The times of its block and its warp then say all that matters to the thread's access. */
    const bool usual =
        kind <= plain_write && bytes >= 4 && !thread->block->partial &&
        (home ? launch->launch->cluster_blocks == 1 : launch->quiet[0] != never_quiet);
    const uintptr_t begin = (address - shadow.base) / 4;
    const uintptr_t end = (address + bytes + 3 - shadow.base) / 4;
    const uint8_t *quiet = home ? thread->warp->quiet : launch->quiet;
    const auto usual_at = [&](uintptr_t i) {
        return (!writes(kind) && is_quiet(shadow.quiet[i], quiet)) ||
               (home ? usual_word<false>(shadow, i, stamp, writes(kind), thread)
                     : usual_word<true>(shadow, i, stamp, writes(kind), thread));
    };
    Blank blank;
    for (uintptr_t i = begin; i < end && shadow.plane[0]; i++)
        if (!(usual && usual_at(i)) &&
            !unusual_access(thread, home, shadow, i, address, bytes, stamp, place.where, blank))
            return false;
    if (blank.words == end - begin)
        note_uninitialised(thread, Touch{blank.address, bytes, false, place.where});
    return true;
}

static inline void count_known_access(ThreadState *thread, Instruction &instruction,
                                      uintptr_t address, AccessKind kind)
{
    thread->unfenced_write |= instruction.place.space == global_space && kind == plain_write;
    add_execution(address, instruction, thread->lane);
}

/* The function is separate, so that the usual accesses need save no registers. */
__attribute__((noinline)) static void known_but_unusual(ThreadState *thread,
                                                        Instruction &instruction, uintptr_t address,
                                                        unsigned bytes, AccessKind kind)
{
    const Reach &reach = *instruction.reach;
    const Place &place = instruction.place;
    BlockState *home = place.space == global_space ? nullptr : thread->block;
    if (address >= reach.end) /* it has been freed since */
        on_access(memory_at(address), bytes, kind, place.where);
    else if (shadow_access(thread, home, *reach.shadow, address, bytes, kind, place))
        count_known_access(thread, instruction, address, kind);
}

template <bool global, unsigned bytes, AccessKind kind> static inline bool
usual_words(ThreadState *thread, const Instruction &instruction, uintptr_t address)
{
    const Reach &reach = *instruction.reach;
    if (bytes < 4 || thread->block->partial || *instruction.quiet == never_quiet ||
        address >= reach.end)
        return false;
    const Stamp stamp = stamp_of(thread, kind, instruction.place);
    for (unsigned i = 0; i < bytes / 4; i++)
        if (!usual_word<global>(*reach.shadow, (address - reach.shadow->base) / 4 + i, stamp,
                                kind == plain_write, thread))
            return false;
    return true;
}

template <unsigned bytes, AccessKind kind>
void on_known_access(uintptr_t address, Instruction &instruction, ThreadState *thread)
{
    if (instruction.place.space == global_space
            ? usual_words<true, bytes, kind>(thread, instruction, address)
            : usual_words<false, bytes, kind>(thread, instruction, address))
        count_known_access(thread, instruction, address, kind);
    else
        known_but_unusual(thread, instruction, address, bytes, kind);
}

#define KNOWN(bytes)                                                                               \
    template void on_known_access<bytes, plain_read>(uintptr_t, Instruction &, ThreadState *);     \
    template void on_known_access<bytes, plain_write>(uintptr_t, Instruction &, ThreadState *);
KNOWN(1)
KNOWN(2)
KNOWN(4)
KNOWN(8)
KNOWN(16)

} /* namespace simt::check */
