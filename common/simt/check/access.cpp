/* Finds whose memory is at an address, and whether the kernel may touch it there. Every access of
 * the kernel comes through on_access, to be checked against bounds, counted, and stamped. */
#include "check/check.h"
#include "run/cluster.h"
#include <sys/mman.h>

namespace simt::check
{

/* The table has two levels, by address bits 47..30, then 29..12: a lower one covers 1 GB. */
constexpr unsigned page_bits = 12, table_bits = 18;
constexpr size_t table_size = size_t{1} << table_bits;

static Region **tables[table_size];

Region *find_region(uintptr_t address)
{
    if (address >> (page_bits + 2 * table_bits))
        return nullptr;
    Region **table = tables[address >> (page_bits + table_bits)];
    return table ? table[address >> page_bits & (table_size - 1)] : nullptr;
}

static std::vector<Region *> regions;

Region *add_region(const void *begin, size_t bytes, const Allocation *allocation)
{
    Region *region = new Region();
    region->begin = number_of(begin);
    region->end = region->begin + bytes;
    region->allocation = allocation;
    shadow_reserve(region->shadow, begin, bytes);
    region->open = reach_of(region->begin, region->end, region->shadow);
    uintptr_t page = region->begin >> page_bits;
    do {
        Region **&table = tables[page >> table_bits];
        if (!table)
            table = static_cast<Region **>(
                mmap(nullptr, table_size * sizeof *table, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        table[page & (table_size - 1)] = region;
    } while (++page << page_bits < region->end);
    regions.push_back(region);
    return region;
}

/* Where a program has these, only what lies between them are its variables: the rest is a judge's,
 * who links both into one program. Each is a page. */
extern "C" __attribute__((weak)) char simt_begin_of_data[], simt_end_of_data[], simt_begin_of_bss[],
    simt_end_of_bss[];

struct Variables {
    const char *begin, *end;
};
static const Variables own_variables[] = {{simt_begin_of_data, simt_end_of_data},
                                          {simt_begin_of_bss, simt_end_of_bss}};

void add_program_variables()
{
    static bool done;
    if (std::exchange(done, true))
        return;
    if (simt_end_of_bss) {
        for (const Variables &own : own_variables)
            add_region(own.begin, size_t(own.end - own.begin), nullptr);
        return;
    }
    for (const Segment &segment : segments())
        if (segment.base == segments()[0].base && segment.writable)
            add_region(memory_at(segment.begin), segment.end - segment.begin, nullptr);
}

bool belongs_to_judge(uintptr_t address)
{
    if (!simt_end_of_bss)
        return false;
    for (const Variables &own : own_variables)
        if (within(address, own.begin, own.end))
            return false;
    return in_segment(address, true);
}

static bool forgotten; /* what kernels wrote */

void forget_shadows(bool whole)
{
    forgotten |= whole;
    for (Region *region : regions)
        shadow_forget(region->shadow, whole);
}

void add_fence(const void *begin, size_t bytes)
{
    uintptr_t address = number_of(begin);
    Region *region = find_region(address);
    if (!region || bytes == 0)
        return;
    region->fences.emplace_back(address, address + bytes);
    /* The longer piece stays open. */
    Reach &open = region->open;
    const uintptr_t before = std::clamp(address, open.begin, open.end) - open.begin;
    const uintptr_t behind = open.end - std::clamp(address + bytes, open.begin, open.end);
    if (before > behind)
        open.end = open.begin + before;
    else
        open.begin = open.end - behind;
}

static std::mutex writing;

void add_written(const void *begin, size_t bytes)
{
    Region *region = find_region(number_of(begin));
    if (!region)
        return;
    std::lock_guard<std::mutex> hold(writing);
    auto &written = region->written;
    uintptr_t from = number_of(begin), to = from + bytes;
    auto piece = written.upper_bound(from);
    if (piece != written.begin() && std::prev(piece)->second >= from)
        --piece;
    while (piece != written.end() && piece->first <= to) { /* the pieces become one */
        from = std::min(from, piece->first);
        to = std::max(to, piece->second);
        piece = written.erase(piece);
    }
    written[from] = to;
}

bool is_new(uintptr_t address, unsigned bytes)
{
    static const unsigned char fresh[] = {0xff, 0xff, 0xff, 0xff};
    if (forgotten || memcmp(memory_at(address), fresh, bytes) != 0)
        return false;
    const Region *region = find_region(address);
    if (!region || !region->allocation || region->allocation->for_host_too())
        return false;
    std::lock_guard<std::mutex> hold(writing);
    const auto piece = region->written.upper_bound(address);
    return piece == region->written.begin() || std::prev(piece)->second <= address;
}

static bool allowed(const Region *region, uintptr_t address, unsigned bytes)
{
    return region->begin <= address && address + bytes <= region->end &&
           std::none_of(region->fences.begin(), region->fences.end(), [=](const auto &fence) {
               return address < fence.second && address + bytes > fence.first;
           });
}

/* A thread that reads one address again and again waits for another thread to change it. How often
 * it reads depends on luck, so the wait counts as one read. The other thread must also get a chance
 * to run: for atomic reads the runtime gives it one, but volatile reads are seen only here. */
static void notice_polling(ThreadState *thread, unsigned kind, const void *pointer)
{
    constexpr unsigned polls_before_yield = 64;
    if (kind != volatile_read && kind != atomic_read) {
        thread->polled = nullptr;
    } else if (thread->polled != pointer) {
        thread->polled = pointer;
        thread->polls = 0;
    } else if (++thread->polls % polls_before_yield == 0 && kind == volatile_read) {
        simt_yield();
    }
}

void look_at_next(ThreadState *thread)
{
    static Recent none;
    thread->thread->recent = &none;
}

Look other_look(const BlockState *block, uintptr_t address)
{
    for (const Look &look : block->looks)
        if (look.address && look.address != memory_at(address))
            return look;
    return {};
}

/* Returns the part of the worker's shared memory that has an address; null for other memory. */
static const Reach *shared_reach(BlockState *block, uintptr_t address)
{
    const Worker &w = *worker;
    if (!within(address, w.shared_begin, w.shared_end))
        return nullptr;
    if (!within(address, w.dynamic_begin, w.dynamic_begin + max_shared_per_block))
        return address < number_of(w.dynamic_begin) ? &block->static_before : &block->static_behind;
    /* Dynamic shared memory begins elsewhere in a kernel that declares it as aligned. */
    block->dynamic.begin = number_of(w.dynamic_begin);
    block->dynamic.end = number_of(w.dynamic_end);
    return &block->dynamic;
}

/* Of other memory, a stack, the launch's arguments and constants may be touched. */
static void other_access(ThreadState *thread, const Touch &touch)
{
    const void *pointer = memory_at(touch.address);
    const Launch &launch = *thread->block->launch->launch;
    const char *arguments = static_cast<const char *>(launch.arguments);
    if (on_thread_stack(pointer) ||
        within(touch.address, arguments, arguments + launch.argument_bytes) ||
        (!touch.write && in_segment(touch.address, false)))
        return;
    report_touch(thread, touch);
}

/* Handles a kernel's access, or a piece of it, to anything but its own stack. */
static void on_piece(const void *pointer, unsigned bytes, unsigned kind, const void *where)
{
    const uintptr_t address = number_of(pointer);
    ThreadState *thread = current_thread_state();
    BlockState *block = thread->block;
    if (thread->look_at)
        order_look(thread);

    const Touch touch = {address, bytes, writes(kind), where};
    const Reach *reach = shared_reach(block, address);
    const Space space = reach ? shared_space : global_space;
    Region *region = reach ? nullptr : find_region(address);
    if (region)
        reach = &region->open;
    if (!reach)
        other_access(thread, touch);
    else if ((address < reach->begin || address + bytes > reach->end) &&
             !(region && allowed(region, address, bytes)))
        report_touch(thread, touch);

    if (reach) {
        const Place &place = find_place(block, where, space, writes(kind), bytes);
        if (shadow_access(thread, region ? nullptr : block, *reach->shadow, address, bytes,
                          kind | unsigned(thread->narrow) << kind_bits, place)) {
            if (kind <= volatile_write && !(kind == volatile_read && thread->polled == pointer))
                count_access(thread, place, address, *reach);
            if (region && kind == plain_write)
                thread->unfenced_write = true;
        }
        if (kind >= volatile_read && kind <= atomic_update) {
            block->last_look = {pointer, place.number};
            if (region && block->looks[0].address != pointer)
                block->looks[1] = block->looks[0];
            if (region)
                block->looks[0] = block->last_look;
            block->last_looker = thread->number;
            block->last_look_time = block->full_time;
            /* Wider ones add to several floats and return nothing: nobody takes them for flags. */
            if (bytes <= sizeof(uint64_t))
                order_atomic(thread, pointer, region, writes(kind));
        }
    }
    notice_polling(thread, kind, pointer);
    if (thread->look_at || thread->polled || !block->overwrites.empty())
        look_at_next(thread);
    else
        thread->thread->recent = &thread->warp->recent;
}

void on_access(const void *pointer, unsigned bytes, unsigned kind, const void *where)
{
    const ThreadState *thread = current_thread_state();
    if (!thread)
        return report_host_access({number_of(pointer), bytes, writes(kind), where});
    if (on_own_stack(pointer))
        return;
    if (number_of(pointer) & (bytes - 1)) /* two doubles in a struct, for instance */
        return on_range(pointer, bytes, kind, where);
    settle_overwrites(thread->block);
    on_piece(pointer, bytes, kind, where);
}

void on_range(const void *pointer, size_t bytes, unsigned kind, const void *where)
{
    /* This is the widest piece that divides address and size: 4 for a struct of three floats. */
    uintptr_t address = number_of(pointer);
    uintptr_t common = address | bytes | 16;
    unsigned piece = unsigned(common & -common);
    /* They are not settled between pieces: what the first overwrites changes after the last. */
    settle_overwrites(current_thread_state()->block);
    for (const char *part = static_cast<const char *>(pointer), *end = part + bytes; part < end;
         part += piece)
        if (!on_own_stack(part))
            on_piece(part, piece, kind, where);
}

/* ---- shared memory of a cluster's other blocks ---- */

/* A cluster's blocks run one at a time (run/cluster.h), so they may read each other's state. */
int cluster_rank_of(const BlockState *block, uint32_t number)
{
    const Cluster &cluster = *block->block->cluster;
    if (block->number == number)
        return int(block->block->rank);
    for (unsigned rank = 0; cluster.blocks > 1 && rank < cluster.blocks; rank++)
        if (cluster.member[rank].block->checked->number == number)
            return int(rank);
    return -1;
}

void store_in_cluster(BlockState *home, uintptr_t address, unsigned bytes, unsigned kind,
                      const void *where)
{
    ThreadState *thread = current_thread_state();
    BlockState *block = thread->block;
    settle_overwrites(block);
    if (thread->look_at)
        order_look(thread);

    const Place &place = find_place(block, where, shared_space, true, 4);
    const Stamp stamp = stamp_of(thread, kind, place);
    if (home != block && known_cluster_phase(thread) == 0)
        report_visit(block, home, stamp,
                     "which may not have begun: no cluster_wait() has come before");
    shadow_access(thread, home, home->shared, address, bytes, kind, place);
    /* A block that waits for a copy exists until it arrives. Others are reported at their end. */
    if (home != block && kind != proxy_write_pending)
        home->visits[{stamp.block, stamp.thread()}] = stamp;
}

void settle_visits(BlockState *block)
{
    for (const auto &each : block->visits) /* no thread knows of these */
        if (std::none_of(block->thread, block->thread + block->block->threads,
                         [&](ThreadState &t) { return ordered_before(each.second, &t); }))
            report_visit(block, block, each.second,
                         "which may have ended: no cluster_arrive() and cluster_wait() come after");
}

uintptr_t own_place(uintptr_t address, const BlockState **home)
{
    const Cluster &cluster = *worker->block->cluster;
    for (unsigned rank = 0; rank < cluster.blocks; rank++) {
        const Worker &owner = *cluster.member[rank].worker;
        const uintptr_t begin = number_of(owner.shared_begin);
        if (address < begin || address >= number_of(owner.shared_end))
            continue;
        if (home)
            *home = cluster.member[rank].block->checked;
        return address - begin + number_of(worker->shared_begin);
    }
    return address;
}

} /* namespace simt::check */
