/*
 * Counters. Loads, stores and bytes are simply added up. Sectors and wavefronts belong to a warp's
 * request, and the lanes of a warp do not run side by side here: one runs until it has to wait,
 * then the next. So the lanes' accesses are matched: the k-th execution of an instruction by each
 * lane, counted from the last time that the whole warp came together, is one request. It is closed
 * when all lanes have made it, or when the warp comes together again.
 *
 * Nothing in this depends on the order in which threads or blocks run.
 */
#include "check/check.h"

namespace simt
{
namespace check
{

constexpr unsigned sector_bits = 5, line_bits = 7;
constexpr unsigned banks = 32;

/* How many different pieces of memory, of 1 << piece_bits bytes. */
static unsigned pieces(const Request &request, unsigned piece_bits)
{
    uintptr_t distinct[warp_size];
    unsigned count = 0;
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

static void close(BlockState *block, const WarpState *warp, const Request &request, Space space,
                  bool write)
{
    struct counters &counted = block->counted;
    Moved moved = {};
    if (space == shared_space)
        add_wavefronts(request, moved);
    else
        moved.sectors = pieces(request, sector_bits);
    if (block->trace) {
        moved.lines = pieces(request, line_bits);
        trace_request(block, warp, request, space, write, moved);
    }
    counted.shared_wavefronts += moved.wavefronts;
    counted.shared_wavefronts_ideal += moved.ideal;
    (write ? counted.global_store_requests : counted.global_load_requests) += space == global_space;
    (write ? counted.global_store_sectors : counted.global_load_sectors) += moved.sectors;
}

/* The running lane's next execution of the instruction at `place`. */
static void take_part(ThreadState *thread, const Place &place, Space space, bool write,
                      uintptr_t address, unsigned bytes)
{
    BlockState *block = thread->block;
    WarpState *warp = thread->warp;
    const uint64_t time = block->trace ? trace_time(block, warp) : 0;
    if (!warp) { /* the engine's accesses are a request each */
        close(block, nullptr, Request{1, bytes, place.number, time, {address}}, space, write);
        return;
    }
    std::vector<Instruction> &instructions = warp->instructions[space][write];
    if (instructions.size() <= place.local)
        instructions.resize(place.local + 16);
    Instruction &instruction = instructions[place.local];
    if (instruction.round != warp->round) {
        instruction.round = warp->round;
        instruction.open = instruction.used = 0;
        for (uint32_t &times : instruction.times)
            times = 0;
        warp->touched[space][write].push_back(place.local);
    }
    uint32_t k = instruction.times[thread->lane]++;
    if (k == instruction.used) {
        if (k == instruction.requests.size())
            instruction.requests.resize(k < 8 ? 8 : 2 * k);
        Request &begun = instruction.requests[k];
        begun.lanes = 0;
        begun.bytes = bytes;
        begun.place = place.number;
        begun.time = time;
        instruction.used++;
        instruction.open++;
    }
    Request &request = instruction.requests[k];
    request.lanes |= 1u << thread->lane;
    request.address[thread->lane] = address;
    if (request.lanes == warp->warp->present) {
        close(block, warp, request, space, write);
        request.lanes = 0;
        instruction.open--;
    }
}

void close_round(BlockState *block, WarpState *warp)
{
    for (unsigned space = global_space; space <= shared_space; space++)
        for (unsigned write = 0; write < 2; write++) {
            for (uint32_t local : warp->touched[space][write]) {
                Instruction &instruction = warp->instructions[space][write][local];
                for (uint32_t k = 0; instruction.open > 0; k++)
                    if (instruction.requests[k].lanes) {
                        close(block, warp, instruction.requests[k], static_cast<Space>(space),
                              write);
                        instruction.open--;
                    }
            }
            warp->touched[space][write].clear();
        }
    warp->round++;
    if (block->trace)
        trace_round(block, warp);
}

void count_access(ThreadState *thread, const Place &place, Space space, uintptr_t address,
                  unsigned bytes, bool write)
{
    struct counters &counted = thread->block->counted;
    if (space == shared_space) {
        (write ? counted.shared_stores : counted.shared_loads)++;
    } else {
        (write ? counted.global_stores : counted.global_loads)++;
        (write ? counted.global_store_bytes : counted.global_load_bytes) += bytes;
    }
    take_part(thread, place, space, write, address, bytes);
}

/* ---- places in the code ---- */

void forget_places(BlockState *block)
{
    for (Place &recent : block->recent)
        recent.key = 0;
    block->places.clear();
}

const Place &find_place(BlockState *block, const void *where)
{
    uintptr_t key = reinterpret_cast<uintptr_t>(where);
    Place &recent = block->recent[(key ^ key >> 10) % recent_places];
    if (recent.key != key) {
        auto found = block->places.find(key);
        if (found == block->places.end()) {
            uint32_t local = static_cast<uint32_t>(block->places.size());
            found = block->places.emplace(key, Place{key, place_number(where), local}).first;
        }
        recent = found->second;
    }
    return recent;
}

/* ---- sums ---- */

void add_counters(struct counters *sum, const struct counters &part)
{
    /* The struct is nothing but unsigned long longs. */
    static_assert(sizeof part % sizeof part.launches == 0,
                  "struct counters has only one type of member");
    const unsigned long long *from = &part.launches;
    unsigned long long *to = &sum->launches;
    for (size_t i = 0; i < sizeof part / sizeof part.launches; i++)
        to[i] += from[i];
}

} /* namespace check */
} /* namespace simt */
