/* Loads, stores and bytes are simply added up. Sectors and wavefronts belong to a warp's request,
 * but the lanes of a warp do not run side by side here: one runs until it has to wait, then the
 * next. So the lanes' accesses are matched: the k-th execution of an instruction by each lane since
 * the whole warp last met is one request, evaluated when the warp meets again. Nothing in this
 * depends on the order in which threads or blocks run. */
#include "check/check.h"
#include <numeric>

namespace simt::check
{

constexpr unsigned sector_bits = 5, line_bits = 7;
constexpr unsigned banks = 32;

/* Counts the different pieces, of 1 << piece_bits bytes, of a request moved `further`. */
static unsigned pieces(const Request &request, unsigned piece_bits, uintptr_t further = 0)
{
    uintptr_t piece[warp_size];
    unsigned lanes = 0;
    for (unsigned lane : bits(request.lanes))
        piece[lanes++] = (request.address[lane] + further) >> piece_bits;
    if (!std::is_sorted(piece, piece + lanes)) /* lanes usually walk upwards */
        std::sort(piece, piece + lanes);
    return unsigned(std::unique(piece, piece + lanes) - piece);
}

/* Counts passes over the banks for some lanes: as many as the fullest bank has words. */
static unsigned passes(const Request &request, uint32_t lanes, unsigned words_per_lane)
{
    /* Neighbouring words are in different banks. */
    uintptr_t lowest = UINTPTR_MAX, highest = 0;
    for (unsigned lane : bits(lanes)) {
        lowest = std::min(lowest, request.address[lane] / 4);
        highest = std::max(highest, request.address[lane] / 4);
    }
    if (highest + words_per_lane - lowest <= banks)
        return 1;
    uintptr_t held[banks][warp_size];
    unsigned char words[banks] = {};
    unsigned most = 0;
    for (unsigned lane : bits(lanes))
        for (unsigned i = 0; i < words_per_lane; i++) {
            const uintptr_t word = request.address[lane] / 4 + i;
            uintptr_t *in_bank = held[word % banks];
            unsigned char &count = words[word % banks];
            unsigned j = 0;
            while (j < count && in_bank[j] != word)
                j++;
            if (j == count)
                in_bank[count++] = word;
            if (count > most)
                most = count;
        }
    return most;
}

/* With 8 bytes per lane half a warp is moved at a time, with 16 bytes a quarter. */
static void add_wavefronts(const Request &request, Moved &moved)
{
    const unsigned words_per_lane = std::max(request.place.bytes / 4, 1u);
    const unsigned lanes_at_once = warp_size / words_per_lane;
    const uint32_t group = ~0u >> (warp_size - lanes_at_once);
    for (unsigned first = 0; first < warp_size; first += lanes_at_once)
        if (const uint32_t lanes = request.lanes & group << first) {
            moved.wavefronts += passes(request, lanes, words_per_lane);
            moved.ideal++;
        }
}

/* Counts the sectors of several requests, each one step further than the one before. */
static unsigned long long sectors(const Request &request, size_t requests, uintptr_t step)
{
    /* After this many requests they lie to the sectors as before. */
    constexpr uintptr_t sector = 1 << sector_bits;
    const size_t period = sector / std::gcd(sector, step);
    unsigned long long sum = 0;
    for (size_t i = 0; i < std::min(period, requests); i++)
        sum += pieces(request, sector_bits, i * step) * ((requests - i - 1) / period + 1);
    return sum;
}

void count_requests(struct counters &counted, Space space, bool write, size_t lanes,
                    size_t requests, size_t bytes, const Moved &moved)
{
    if (space == shared_space) {
        (write ? counted.shared_stores : counted.shared_loads) += lanes;
        counted.shared_wavefronts += moved.wavefronts;
        counted.shared_wavefronts_ideal += moved.ideal;
    } else {
        (write ? counted.global_stores : counted.global_loads) += lanes;
        (write ? counted.global_store_bytes : counted.global_load_bytes) += bytes;
        (write ? counted.global_store_requests : counted.global_load_requests) += requests;
        (write ? counted.global_store_sectors : counted.global_load_sectors) += moved.sectors;
    }
}

/* Closes requests, each one step further than the one before. In shared memory all are like the
 * first: in other banks, but as many, because `step` is in whole words. */
static void close(const WarpState *warp, const Request &request, size_t requests, uintptr_t step)
{
    BlockState *block = warp->block();
    const Place &place = request.place;
    const size_t lanes = requests * unsigned(__builtin_popcount(request.lanes));
    Moved moved = {};
    if (place.space == global_space) {
        moved.sectors = sectors(request, requests, step);
    } else {
        add_wavefronts(request, moved);
        moved.wavefronts *= requests;
        moved.ideal *= requests;
    }
    count_requests(block->counted, place.space, place.write, lanes, requests, lanes * place.bytes,
                   moved);
    if (block->trace) { /* one at a time */
        moved.lines = pieces(request, line_bits);
        trace_request(warp, request, moved);
    }
}

/* Requests in a row are one step apart as long as all lanes' runs go on with that step. */
static void close_requests(const WarpState *warp, const Instruction &instruction)
{
    const Place &place = instruction.place;
    const uint32_t broken = instruction.broken;
    const bool traced = warp->block()->trace;
    Request request = {place, instruction.lanes};
    const Run usual = instruction.last(unsigned(__builtin_ctz(request.lanes)));
    bool alike = !broken && !traced && (place.space == global_space || usual.step % 4 == 0);
    for (unsigned lane : bits(request.lanes)) {
        const Run run = instruction.last(lane);
        alike &= run.count == usual.count && (run.step == usual.step || run.count == 1);
        request.address[lane] = run.next - run.step * run.count;
    }
    if (alike)
        return close(warp, request, usual.count, usual.step);
    struct {
        size_t run, done;
    } cursor[warp_size] = {}; /* each lane's position in its runs */
    const auto run_of = [&](unsigned lane) {
        const bool early =
            broken >> lane & 1 && cursor[lane].run < instruction.earlier[lane].size();
        return early ? instruction.earlier[lane][cursor[lane].run] : instruction.last(lane);
    };
    for (size_t k = 0; request.lanes; k++) {
        const uintptr_t step = run_of(unsigned(__builtin_ctz(request.lanes))).step;
        size_t together = SIZE_MAX;
        for (unsigned lane : bits(request.lanes)) {
            const Run run = run_of(lane);
            const size_t left = run.count - cursor[lane].done;
            request.address[lane] = run.next - run.step * left;
            together = std::min(together, run.step == step ? left : 1);
        }
        if (traced || (place.space == shared_space && step % 4))
            together = 1;
        if (traced)
            request.time = instruction.began[k];
        close(warp, request, together, step);
        for (unsigned lane : bits(request.lanes)) {
            cursor[lane].done += together;
            if (cursor[lane].done < run_of(lane).count)
                continue;
            cursor[lane] = {cursor[lane].run + 1, 0};
            if (cursor[lane].run > instruction.earlier[lane].size())
                request.lanes &= ~(1u << lane);
        }
    }
}

static bool loads_from(Space space, const Instruction &instruction)
{
    return instruction.place.space == space && !instruction.place.write;
}

unsigned long long shared_loads_of(const ThreadState *thread)
{
    WarpState *warp = thread->warp;
    if (!std::exchange(warp->asked_for_loads, true))
        std::fill_n(warp->shared_loads, warp_size, 0);
    unsigned long long sum = warp->shared_loads[thread->lane];
    for (uint32_t local : warp->touched)
        if (loads_from(shared_space, *warp->instructions[local]))
            sum += warp->instructions[local]->executions(thread->lane);
    return sum;
}

/* Adds each lane's loads of this round to its sum. */
static void add_loads(const WarpState *warp, Space space, size_t *sums)
{
    for (uint32_t local : warp->touched)
        if (const Instruction &instruction = *warp->instructions[local];
            loads_from(space, instruction))
            for (unsigned lane : bits(instruction.lanes))
                sums[lane] += instruction.executions(lane);
}

/* Follows the lane through the round, in the order in which it came to the instructions. */
static void count_ahead_of(WarpState *warp, unsigned lane, std::vector<const Instruction *> &order)
{
    order.clear();
    for (uint32_t local : warp->touched)
        if (warp->instructions[local]->lanes >> lane & 1)
            order.push_back(warp->instructions[local].get());
    const auto earlier = [lane](const Instruction *a, const Instruction *b) {
        return int32_t(a->first[lane] - b->first[lane]) < 0;
    };
    if (!std::is_sorted(order.begin(), order.end(), earlier))
        std::sort(order.begin(), order.end(), earlier);
    size_t loads = warp->ahead >> lane & 1 ? warp->loads_ahead[lane] : 0;
    for (const Instruction *instruction : order) {
        const Place &place = instruction->place;
        if (loads_from(global_space, *instruction)) {
            loads += instruction->executions(lane);
        } else if (place.space == shared_space) {
            warp->block()->counted.loads_ahead += place.write ? 0 : loads;
            loads = 0;
        }
    }
    warp->loads_ahead[lane] = loads;
    warp->ahead = (warp->ahead & ~(1u << lane)) | uint32_t(loads > 0) << lane;
}

static void count_ahead(WarpState *warp)
{
    static thread_local std::vector<const Instruction *> order;
    if (!warp->block()->launch->has_shared)
        return;
    uint32_t loading = 0;
    bool shared = false;
    for (uint32_t local : warp->touched) {
        const Instruction &instruction = *warp->instructions[local];
        shared |= instruction.place.space == shared_space;
        if (loads_from(global_space, instruction))
            loading |= instruction.lanes;
    }
    if (shared) {
        for (unsigned lane : bits(loading | warp->ahead))
            count_ahead_of(warp, lane, order);
        return;
    }
    for (unsigned lane : bits(loading & ~warp->ahead))
        warp->loads_ahead[lane] = 0;
    warp->ahead |= loading;
    add_loads(warp, global_space, warp->loads_ahead);
}

void close_round(WarpState *warp)
{
    count_ahead(warp);
    if (warp->asked_for_loads)
        add_loads(warp, shared_space, warp->shared_loads);
    for (uint32_t local : warp->touched) {
        Instruction &instruction = *warp->instructions[local];
        close_requests(warp, instruction);
        instruction.where = nullptr;
        for (unsigned lane : bits(instruction.lanes)) { /* each lane probably keeps its step */
            instruction.next[lane] = 1;
            instruction.count[lane] = 0;
        }
        for (unsigned lane : bits(instruction.broken))
            instruction.earlier[lane].clear();
        instruction.lanes = instruction.broken = 0;
    }
    warp->touched.clear();
    if (warp->block()->trace)
        trace_round(warp);
}

void begin_run(uintptr_t address, Instruction &instruction, unsigned lane)
{
    uintptr_t &next = instruction.next[lane], &step = instruction.step[lane];
    size_t &count = instruction.count[lane];
    if (count == 1) {
        step += address - next;
        next = address + step;
        count = 2;
        return;
    }
    instruction.lanes |= 1u << lane;
    if (count == 0) {
        static thread_local uint32_t moment;
        instruction.first[lane] = moment++;
    } else {
        instruction.earlier[lane].push_back(instruction.last(lane));
        instruction.broken |= 1u << lane;
    }
    next = address + step;
    count = 1;
}

/* In a block that is traced, the time of a request is that of the first lane. */
static void note_time(const ThreadState *thread, Instruction &instruction)
{
    const uint64_t now = trace_time(thread->block, thread->warp);
    if (instruction.executions(thread->lane) > instruction.began.size())
        instruction.began.push_back(now);
}

void count_access(ThreadState *thread, const Place &place, uintptr_t address, const Reach &reach)
{
    const BlockState *block = thread->block;
    WarpState *warp = thread->warp;
    while (warp->instructions.size() <= place.local)
        warp->instructions.push_back(std::make_unique<Instruction>());
    Instruction &instruction = *warp->instructions[place.local];
    if (!instruction.where) { /* the warp executes it for the first time since it last met */
        instruction.where = place.where;
        instruction.place = place;
        instruction.began.clear();
        warp->touched.push_back(place.local);
    }
    add_execution(address, instruction, thread->lane);
    if (block->trace)
        note_time(thread, instruction);
    const bool cluster = block->launch->launch->cluster_blocks > 1;
    const bool look = block->trace || (cluster && place.space == shared_space) || !reach.quiet;
    instruction.reach = look ? &no_reach : &reach;
    instruction.begin = instruction.reach->begin;
    instruction.room = instruction.reach->end - instruction.begin;
    instruction.room -= std::min<size_t>(instruction.room, place.bytes - 1);
    instruction.words = instruction.reach->quiet;
    instruction.quiet = place.space == shared_space ? warp->quiet : block->launch->quiet;
    warp->recent.at(place.where) = &instruction;
}

const Place &find_place(BlockState *block, const void *where, Space space, bool write,
                        unsigned bytes)
{
    const unsigned what = unsigned(__builtin_ctz(bytes)) << 2 | write << 1 | space;
    const uint32_t local = uint32_t(block->places.size());
    const auto [found, is_new] = block->places.try_emplace(number_of(where) << 5 | what);
    if (is_new)
        found->second = {where, place_number(where), local, bytes, space, write};
    return found->second;
}

void add_counters(struct counters *sum, const struct counters &part)
{
#define ADD(name) sum->name += part.name;
    EACH_COUNTER(ADD)
#undef ADD
}

void add_block(LaunchState *launch, const BlockState *block)
{
    const struct counters &c = block->counted;
    const size_t wave = block->block->linear / multiprocessors;
    std::vector<unsigned long long> &most = launch->wave_accesses;
    if (most.size() <= wave)
        most.resize(wave + 1);
    most[wave] =
        std::max(most[wave], c.global_loads + c.global_stores + c.shared_loads + c.shared_stores);
    add_counters(&launch->counted, c);
}

} /* namespace simt::check */
