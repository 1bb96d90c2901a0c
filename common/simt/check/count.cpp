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

constexpr unsigned sector_bits = 5;
constexpr unsigned banks = 32;

static unsigned sectors(const Request &request)
{
    uint32_t distinct[warp_size];
    unsigned count = 0;
    for (unsigned lane : bits(request.lanes)) {
        uint32_t sector = request.piece[lane];
        /* Neighbours usually share a sector: search backwards. */
        unsigned i = count;
        while (i > 0 && distinct[i - 1] != sector)
            i--;
        if (i == 0)
            distinct[count++] = sector;
    }
    return count;
}

/* Passes over the banks for some lanes: as many as the fullest bank has different words. */
static unsigned passes(const Request &request, uint32_t lanes, unsigned words_per_lane)
{
    uint32_t held[banks][warp_size];
    unsigned char words[banks] = {};
    unsigned most = 0;
    for (unsigned lane : bits(lanes))
        for (unsigned i = 0; i < words_per_lane; i++) {
            uint32_t word = request.piece[lane] + i;
            uint32_t *in_bank = held[word % banks];
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
static void add_wavefronts(const Request &request, struct counters &counted)
{
    unsigned words_per_lane = request.bytes <= 4 ? 1 : request.bytes / 4;
    unsigned lanes_at_once = warp_size / words_per_lane;
    uint32_t group = words_per_lane == 1 ? ~0u : (1u << lanes_at_once) - 1;
    for (unsigned first = 0; first < warp_size; first += lanes_at_once) {
        uint32_t lanes = request.lanes & group << first;
        if (!lanes)
            continue;
        counted.shared_wavefronts += passes(request, lanes, words_per_lane);
        counted.shared_wavefronts_ideal++;
    }
}

static void close(const Request &request, Space space, bool write, struct counters &counted)
{
    if (space == shared_space) {
        add_wavefronts(request, counted);
    } else if (write) {
        counted.global_store_requests++;
        counted.global_store_sectors += sectors(request);
    } else {
        counted.global_load_requests++;
        counted.global_load_sectors += sectors(request);
    }
}

/* The running lane's next execution of the instruction at `place`, on `piece` of memory. */
static void take_part(ThreadState *thread, const Place &place, Space space, bool write,
                      uint32_t piece, unsigned bytes)
{
    WarpState *warp = thread->warp;
    if (!warp) { /* the engine's accesses are a request each */
        Request request;
        request.lanes = 1;
        request.bytes = bytes;
        request.piece[0] = piece;
        close(request, space, write, thread->block->counted);
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
        instruction.requests[k].lanes = 0;
        instruction.requests[k].bytes = bytes;
        instruction.used++;
        instruction.open++;
    }
    Request &request = instruction.requests[k];
    request.lanes |= 1u << thread->lane;
    request.piece[thread->lane] = piece;
    if (request.lanes == warp->warp->present) {
        close(request, space, write, thread->block->counted);
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
                        close(instruction.requests[k], static_cast<Space>(space), write,
                              block->counted);
                        instruction.open--;
                    }
            }
            warp->touched[space][write].clear();
        }
    warp->round++;
}

void count_access(ThreadState *thread, const Place &place, Space space, uintptr_t address,
                  unsigned bytes, bool write)
{
    struct counters &counted = thread->block->counted;
    if (space == shared_space) {
        (write ? counted.shared_stores : counted.shared_loads)++;
        address /= 4;
    } else {
        (write ? counted.global_stores : counted.global_loads)++;
        (write ? counted.global_store_bytes : counted.global_load_bytes) += bytes;
        address >>= sector_bits;
    }
    take_part(thread, place, space, write, static_cast<uint32_t>(address), bytes);
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
