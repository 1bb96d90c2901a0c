/*
 * Counters. Loads, stores and bytes are simply added up. Sectors and wavefronts belong to a warp's
 * request, and the lanes of a warp do not run side by side here: one runs until it has to wait,
 * then the next. So the lanes' accesses are matched: the k-th execution of an instruction by each
 * lane, counted from the last time that the whole warp came together, is one request. All are
 * looked at when the warp comes together again.
 *
 * Nothing in this depends on the order in which threads or blocks run.
 */
#include "check/check.h"

#include <algorithm>

namespace simt::check
{

constexpr unsigned sector_bits = 5, line_bits = 7;
constexpr unsigned banks = 32;

/* How many different pieces of memory, of 1 << piece_bits bytes. */
static unsigned pieces(const Request &request, unsigned piece_bits)
{
    uintptr_t distinct[warp_size];
    unsigned count = 0;
    /* Lanes that walk upwards need no search. */
    uintptr_t last = 0;
    bool upwards = true;
    for (unsigned lane : bits(request.lanes)) {
        const uintptr_t piece = request.address[lane] >> piece_bits;
        upwards &= piece >= last;
        count += piece != last;
        last = piece;
    }
    if (upwards)
        return count;
    count = 0;
    for (unsigned lane : bits(request.lanes)) {
        const uintptr_t piece = request.address[lane] >> piece_bits;
        /* Neighbours usually share one: search backwards. */
        unsigned i = count;
        while (i > 0 && distinct[i - 1] != piece)
            i--;
        if (i == 0)
            distinct[count++] = piece;
    }
    return count;
}

/* Passes over the banks for some lanes: as many as the fullest bank has different words. */
static unsigned passes(const Request &request, uint32_t lanes, unsigned words_per_lane)
{
    /* Words that lie together are in banks of their own. */
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

/* 8 bytes per lane are moved for half a warp at a time, 16 bytes for a quarter. */
static void add_wavefronts(const Request &request, Moved &moved)
{
    unsigned words_per_lane = request.bytes <= 4 ? 1 : request.bytes / 4;
    unsigned lanes_at_once = warp_size / words_per_lane;
    uint32_t group = words_per_lane == 1 ? ~0u : (1u << lanes_at_once) - 1;
    for (unsigned first = 0; first < warp_size; first += lanes_at_once) {
        uint32_t lanes = request.lanes & group << first;
        if (!lanes)
            continue;
        moved.wavefronts += passes(request, lanes, words_per_lane);
        moved.ideal++;
    }
}

static void close(BlockState *block, const WarpState *warp, const Place &place,
                  const Request &request)
{
    struct counters &counted = block->counted;
    const unsigned lanes = static_cast<unsigned>(__builtin_popcount(request.lanes));
    Moved moved = {};
    if (place.space == shared_space) {
        add_wavefronts(request, moved);
        counted.shared_wavefronts += moved.wavefronts;
        counted.shared_wavefronts_ideal += moved.ideal;
        (place.write ? counted.shared_stores : counted.shared_loads) += lanes;
    } else {
        moved.sectors = pieces(request, sector_bits);
        (place.write ? counted.global_stores : counted.global_loads) += lanes;
        (place.write ? counted.global_store_bytes : counted.global_load_bytes) +=
            1ull * lanes * request.bytes;
        (place.write ? counted.global_store_requests : counted.global_load_requests)++;
        (place.write ? counted.global_store_sectors : counted.global_load_sectors) += moved.sectors;
    }
    if (block->trace) {
        moved.lines = pieces(request, line_bits);
        trace_request(block, warp, request, place.space, place.write, moved);
    }
}

static Request request_of(const Instruction &instruction, uint32_t k)
{
    Request request;
    request.lanes = 0;
    request.bytes = instruction.place.bytes;
    request.place = instruction.place.number;
    request.time = k < instruction.began.size() ? instruction.began[k] : 0;
    for (unsigned lane = 0; lane < warp_size; lane++)
        if (k < instruction.times[lane]) {
            request.lanes |= 1u << lane;
            request.address[lane] = instruction.address[lane * size_t{instruction.room} + k];
        }
    return request;
}

void close_round(BlockState *block, WarpState *warp)
{
    for (uint32_t local : warp->touched) {
        const Instruction &instruction = *warp->instructions[local];
        const uint32_t requests =
            *std::max_element(instruction.times, instruction.times + warp_size);
        for (uint32_t k = 0; k < requests; k++)
            close(block, warp, instruction.place, request_of(instruction, k));
    }
    warp->touched.clear();
    warp->round++;
    if (block->trace)
        trace_round(block, warp);
}

/* The warp's first execution since it last came together. */
static void begin_round(WarpState *warp, Instruction &instruction, const Place &place)
{
    instruction.round = warp->round;
    instruction.place = place;
    instruction.began.clear();
    std::fill(instruction.times, instruction.times + warp_size, 0);
    warp->touched.push_back(place.local);
}

static void make_room(Instruction &instruction)
{
    /* No power of two, or the lanes would share their sets of the host's cache. */
    const uint32_t room = 2 * instruction.room + 8;
    std::unique_ptr<uintptr_t[]> address(new uintptr_t[warp_size * size_t{room}]);
    for (unsigned lane = 0; lane < warp_size; lane++)
        std::copy_n(&instruction.address[lane * size_t{instruction.room}], instruction.times[lane],
                    &address[lane * size_t{room}]);
    instruction.address = std::move(address);
    instruction.room = room;
}

void count_access(ThreadState *thread, const Place &place, uintptr_t address)
{
    BlockState *block = thread->block;
    const uint64_t time = block->trace ? trace_time(block, thread->warp) : 0;
    if (!thread->warp) { /* the engine's accesses are a request each */
        close(block, nullptr, place, Request{1, place.bytes, place.number, time, {address}});
        return;
    }
    WarpState *warp = thread->warp;
    while (warp->instructions.size() <= place.local)
        warp->instructions.push_back(std::make_unique<Instruction>());
    Instruction &instruction = *warp->instructions[place.local];
    if (instruction.round != warp->round)
        begin_round(warp, instruction, place);
    uint32_t &times = instruction.times[thread->lane];
    if (times == instruction.room)
        make_room(instruction);
    instruction.address[thread->lane * size_t{instruction.room} + times++] = address;
    instruction.place.reach = place.reach;
    if (!place.write)
        warp->recent[recent_slot(place_where(place))] = &instruction;
    if (block->trace && instruction.times[thread->lane] > instruction.began.size())
        instruction.began.push_back(time);
}

/* ---- places in the code ---- */

void forget_places(BlockState *block)
{
    for (Place &recent : block->recent)
        recent.key = 0;
    block->places.clear();
}

Place &find_place(BlockState *block, const void *where, Space space, bool write, unsigned bytes)
{
    const uintptr_t key = place_key(where, space, write, bytes);
    Place &recent = block->recent[recent_slot(where)];
    if (recent.key != key) {
        auto found = block->places.find(key);
        if (found == block->places.end()) {
            const uint32_t local = static_cast<uint32_t>(block->places.size());
            found = block->places
                        .emplace(key, Place{key, place_number(where), local, bytes, space, write,
                                            &no_reach})
                        .first;
        }
        recent = found->second;
    }
    return recent;
}

/* ---- sums ---- */

void add_counters(struct counters *sum, const struct counters &part)
{
#define ADD(name) sum->name += part.name;
    EACH_COUNTER(ADD)
#undef ADD
}

} /* namespace simt::check */
