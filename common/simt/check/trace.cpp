/* The trace: README.md describes it. A block's events are kept until it ends, sorted by its clock,
 * and written in the order of the blocks: neither the number of workers nor their speed shows. */
#include "check/check.h"
#include "host/errors.h"
#include "instructions/tensor_map.h"
#include <cerrno>

namespace simt::check
{

struct Array {
    std::string name;
    bool shared;
    uintptr_t begin, end;
    std::string type = ""; /* or not known; so are the others */
    size_t element_bytes = 0;
    std::vector<size_t> shape = {};
};

/* Lanes did other than load or store. If several did the same at one place, it is one event. */
struct Note {
    const char *what;
    const void *where;
    unsigned long long value, size;
    uint64_t time;
    uint32_t lanes;
    uintptr_t address[warp_size]; /* either all or none are null */
};

struct BlockTrace {
    uint64_t clock = 0;
    uint64_t last[max_warps] = {}; /* when each warp last did something */
    size_t bytes = 0;
    std::multimap<uint64_t, std::string> events; /* by time */
    std::vector<Note> notes[max_warps];
    std::deque<Array> arrays; /* those that the block has touched, at its worker's addresses */
};

struct LaunchTrace {
    TraceOptions options;
    unsigned long long cut; /* blocks from this one on do not fit */
    size_t room, bytes = 0; /* what may be written, and how much of it the blocks below need */
    std::mutex lock = {};   /* guards everything but `options` */
    std::map<unsigned long long, std::string> blocks = {};
    /* by place: what is written of them */
    std::map<std::pair<bool, uintptr_t>, std::string> arrays = {};
    std::string reports = {};
};

static std::string quoted(const std::string &text)
{
    std::string result = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\')
            result += '\\';
        result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    return result + '"';
}

template <class Number> static std::string list(const Number *values, size_t count)
{
    std::string result = "[";
    for (size_t i = 0; i < count; i++)
        result += (i ? "," : "") + std::to_string(values[i]);
    return result + "]";
}

static std::string list(dim3 size) { return format("[%u,%u,%u]", size.x, size.y, size.z); }

static std::string counters_json(const struct counters &counted)
{
    std::string text;
#define ADD(name) text += format(",\"" #name "\":%llu", counted.name);
    EACH_COUNTER(ADD)
#undef ADD
    return text;
}

static std::string line_json(const std::string &line)
{
    return line.empty() ? "" : ",\"line\":" + quoted(line);
}

static std::string line_json(Site site)
{
    return site.file && *site.file ? line_json(format("%s:%d", site.file, site.line)) : "";
}

static std::string line_json(const void *where)
{
    return where ? line_json(source_line(where)) : "";
}

static std::mutex described_lock;
static std::map<uintptr_t, Array> described;

void trace_describe(const void *begin, size_t bytes, const struct description &about)
{
    const uintptr_t address = number_of(begin);
    const size_t *shape = about.shape; /* zeros follow the last */
    Array array = {about.name, false, address, address + bytes, about.type, about.element_bytes};
    array.shape.assign(shape, std::find(shape, std::end(about.shape), 0u));
    std::lock_guard<std::mutex> hold(described_lock);
    described[address] = array;
}

bool find_described(const Region *region, uintptr_t address, Argument *array)
{
    std::lock_guard<std::mutex> hold(described_lock);
    auto found = described.upper_bound(address);
    if (found != described.begin() && std::prev(found)->first >= region->begin)
        --found;
    if (found == described.end() || found->first >= region->end)
        return false;
    *array = {found->second.begin, found->second.name, found->second.element_bytes};
    return true;
}

void trace_forget(const Region *region)
{
    std::lock_guard<std::mutex> hold(described_lock);
    described.erase(described.lower_bound(region->begin), described.lower_bound(region->end));
}

static Array shared_array(uintptr_t address)
{
    const uintptr_t first = number_of(worker->shared_begin);
    const uintptr_t dynamic = number_of(worker->dynamic_begin);
    const uintptr_t dynamic_end = number_of(worker->dynamic_end);
    if (dynamic <= address && address < dynamic_end)
        return Array{"dynamic", true, dynamic, dynamic_end};
    size_t begin = 0, bytes = 0;
    const std::string name = shared_variable_before(address - first, &begin, &bytes);
    if (name.empty() || address >= first + begin + bytes)
        return Array{"shared", true, first, dynamic};
    return Array{name, true, first + begin, first + begin + bytes};
}

static Array global_array(const LaunchState *launch, uintptr_t address)
{
    {
        std::lock_guard<std::mutex> hold(described_lock);
        auto after = described.upper_bound(address);
        if (after != described.begin() && address < std::prev(after)->second.end)
            return std::prev(after)->second;
    }
    const Region *region = find_region(address);
    if (!region)
        return Array{"unknown", false, 0, UINTPTR_MAX};
    Array array = {"variables of the program", false, region->begin, region->end};
    if (region->allocation) {
        array.name = format("allocation %llu", region->allocation->number);
        array.begin = region->open.begin;
        array.end = region->open.end;
    }
    for (const Argument &argument : pointer_arguments(launch))
        if (!argument.name.empty() && find_region(argument.pointer) == region) {
            if (argument.pointer > address) {
                array.end = std::min(array.end, argument.pointer);
            } else if (argument.pointer >= array.begin) {
                array.begin = argument.pointer;
                array.name = argument.name;
                array.element_bytes = argument.element_bytes;
            }
        }
    return array;
}

static const Array &array_at(const BlockState *block, uintptr_t address)
{
    for (const Array &array : block->trace->arrays)
        if (array.begin <= address && address < array.end)
            return array;
    block->trace->arrays.push_front(simt_is_shared(memory_at(address))
                                        ? shared_array(address)
                                        : global_array(block->launch, address));
    return block->trace->arrays.front();
}

/* For sectors and banks its begin matters only modulo 128. */
static std::string array_json(const Array &array)
{
    return format("{\"event\":\"array\",\"name\":%s,\"space\":\"%s\",\"begin\":%zu,\"bytes\":%zu,"
                  "\"type\":%s,\"element_bytes\":%zu,\"shape\":",
                  quoted(array.name).c_str(), array.shared ? "shared" : "global", array.begin % 128,
                  array.end - array.begin, quoted(array.type).c_str(), array.element_bytes) +
           list(array.shape.data(), array.shape.size()) + "}\n";
}

/* Returns ,"at":[["A",0,4,32]]: array, byte of the first, step, how many, for lanes in order. */
static std::string places_json(const char *key, const BlockState *block, uint32_t lanes,
                               const uintptr_t *address)
{
    std::vector<uintptr_t> place;
    for (unsigned lane : bits(lanes))
        place.push_back(own_place(address[lane], nullptr));
    std::string text;
    for (size_t first = 0, end = 0; first < place.size(); first = end) {
        const Array &array = array_at(block, place[first]);
        const auto inside = [&](size_t i) {
            return i < place.size() && array.begin <= place[i] && place[i] < array.end;
        };
        const uintptr_t step = inside(++end) ? place[end] - place[first] : 0;
        while (inside(end) && place[end] == place[end - 1] + step)
            end++;
        text += format("%s[%s,%td,%td,%zu]", first ? "," : "", quoted(array.name).c_str(),
                       ptrdiff_t(place[first] - array.begin), ptrdiff_t(step), end - first);
    }
    return format(",\"%s\":[", key) + text + "]";
}

/* Adds an event. `warp` is null for what the block does. */
static void add(const BlockState *block, const WarpState *warp, uint64_t time,
                const std::string &event, const std::string &rest)
{
    BlockTrace *trace = block->trace;
    const TraceOptions &options = block->launch->trace->options;
    const bool all = !warp || options.warp == TraceOptions::all;
    if (trace->bytes > block->launch->trace->room || !(all || options.warp == warp->warp->number))
        return;
    std::string text = format("{\"t\":%zu,\"block\":%llu", time, block->block->linear);
    if (warp)
        text += format(",\"warp\":%u", warp->warp->number);
    text += ",\"event\":" + quoted(event) + rest + "}\n";
    trace->bytes += text.size();
    trace->events.emplace(time, std::move(text));
}

uint64_t trace_time(const BlockState *block, const WarpState *warp)
{
    const uint64_t now = ++block->trace->clock;
    if (warp)
        block->trace->last[warp->warp->number] = now;
    return now;
}

void trace_request(const WarpState *warp, const Request &request, const Moved &moved)
{
    const Place &place = request.place;
    const bool shared = place.space == shared_space;
    std::string rest = format(",\"space\":\"%s\"", shared ? "shared" : "global") +
                       line_json(place.where) +
                       format(",\"lanes\":%u,\"bytes\":%u", request.lanes, place.bytes) +
                       places_json("at", warp->block(), request.lanes, request.address);
    rest += shared ? format(",\"wavefronts\":%zu,\"ideal\":%zu", moved.wavefronts, moved.ideal)
                   : format(",\"sectors\":%zu,\"lines\":%zu", moved.sectors, moved.lines);
    add(warp->block(), warp, request.time, place.write ? "store" : "load", rest);
}

void trace_note(const ThreadState *thread, const char *what, const void *object,
                unsigned long long value, unsigned long long size, const void *where)
{
    const uint64_t now = trace_time(thread->block, thread->warp);
    const uint32_t lane = 1u << thread->lane;
    std::vector<Note> &notes = thread->block->trace->notes[thread->warp->warp->number];
    auto note = std::find_if(notes.begin(), notes.end(), [&](const Note &open) {
        return open.what == what && open.where == where && open.value == value &&
               open.size == size && !(open.lanes & lane);
    });
    if (note == notes.end())
        note = notes.insert(note, Note{what, where, value, size, now, 0, {}});
    note->lanes |= lane;
    note->address[thread->lane] = number_of(object);
}

void trace_round(const WarpState *warp)
{
    std::vector<Note> &notes = warp->block()->trace->notes[warp->warp->number];
    for (const Note &note : notes) {
        std::string rest =
            line_json(note.where) +
            format(",\"lanes\":%u,\"value\":%llu,\"size\":%llu", note.lanes, note.value, note.size);
        if (note.address[__builtin_ctz(note.lanes)])
            rest += places_json("at", warp->block(), note.lanes, note.address);
        add(warp->block(), warp, note.time, note.what, rest);
    }
    notes.clear();
}

void trace_barrier(const BlockState *block, const char *which, Site site, int id)
{
    const std::string number = id < 0 ? "" : format(",\"id\":%d", id);
    add(block, nullptr, trace_time(block, nullptr), which,
        line_json(site) + number + ",\"arrived\":" + list(block->trace->last, block->block->warps));
}

void trace_meeting(const WarpState *warp, const Meeting &meeting, Site site)
{
    add(warp->block(), warp, trace_time(warp->block(), warp), "warp",
        ",\"operation\":" + quoted(meeting.what) + line_json(site) +
            format(",\"lanes\":%u", meeting.arrived));
}

void trace_box(const ThreadState *thread, const BoxCopy &copy, const void *where)
{
    const BlockState *block = thread->block;
    const TensorMap &map = *copy.map;
    const uintptr_t global = number_of(map.address);
    const uintptr_t shared = number_of(copy.shared);
    std::string rest =
        line_json(where) + format(",\"lanes\":%u", 1u << thread->lane) +
        ",\"from\":" + list(copy.coordinates, map.rank) + ",\"box\":" + list(map.box, map.rank) +
        format(",\"element_bytes\":%u,\"swizzle\":%u", map.element_bytes, map.swizzle_span) +
        ",\"strides\":" + list(map.stride, map.rank - 1u) + places_json("at", block, 1, &global) +
        places_json("shared", block, 1, &shared) +
        format(",\"bytes\":%zu,\"sectors\":%zu,\"wavefronts\":%zu", copy.bytes, copy.sectors,
               copy.wavefronts);
    if (copy.ranks)
        rest += format(",\"ranks\":%u", copy.ranks);
    add(block, thread->warp, trace_time(block, thread->warp), copy.load ? "tma_load" : "tma_store",
        rest);
}

/* Launches begin and end one at a time, so this needs no lock. */
static struct {
    std::string path;
    FILE *file;
    size_t written = 0;
    bool said = false; /* that it is full */
} output;

static void write(const std::string &text)
{
    output.written += text.size();
    fwrite(text.data(), 1, text.size(), output.file);
}

void trace_launch_begin(LaunchState *launch)
{
    const TraceOptions options = read_trace();
    if (!options.file)
        return;
    if (!output.file || output.path != options.file) {
        if (output.file)
            fclose(output.file);
        output = {options.file, fopen(options.file, "w")};
        if (!output.file)
            return report(*launch->launch, cudaErrorUnknown, "SIMT_TRACE: cannot write %s: %s",
                          options.file, strerror(errno));
        write("{\"event\":\"trace\",\"version\":1}\n");
    }
    const size_t room = options.bytes - std::min(options.bytes, output.written);
    launch->trace = new LaunchTrace{options, launch->launch->blocks, room};
}

void trace_block_begin(BlockState *block)
{
    LaunchTrace *launch = block->launch->trace;
    if (!launch)
        return;
    const unsigned long long number = block->block->linear;
    std::lock_guard<std::mutex> hold(launch->lock);
    if (number < launch->cut &&
        (launch->options.block == TraceOptions::all || launch->options.block == number))
        block->trace = new BlockTrace();
}

void trace_block_end(BlockState *block)
{
    BlockTrace *trace = block->trace;
    if (!trace)
        return;
    const uint3 &index = block->block->index;
    std::string text = format("{\"event\":\"block\",\"block\":%llu,\"index\":[%u,%u,%u]}\n",
                              block->block->linear, index.x, index.y, index.z);
    for (const auto &event : trace->events)
        text += event.second;
    text += format("{\"event\":\"block_end\",\"block\":%llu,\"t\":%zu", block->block->linear,
                   trace->clock) +
            counters_json(block->counted) + "}\n";

    LaunchTrace *launch = block->launch->trace;
    std::lock_guard<std::mutex> hold(launch->lock);
    for (const Array &array : trace->arrays) {
        /* Workers have shared memory at different addresses, but in the same order. */
        const uintptr_t base = array.shared ? number_of(worker->shared_begin) : 0;
        launch->arrays[{array.shared, array.begin - base}] = array_json(array);
    }
    launch->bytes += text.size();
    launch->blocks[block->block->linear] = std::move(text);
    while (launch->bytes > launch->room) { /* keep the first blocks that fit */
        const auto last = std::prev(launch->blocks.end());
        launch->cut = std::min(launch->cut, last->first);
        launch->bytes -= last->second.size();
        launch->blocks.erase(last);
    }
    delete trace;
    block->trace = nullptr;
}

void trace_report(const char *text)
{
    const BlockState *block = worker && worker->block ? worker->checked : nullptr;
    LaunchTrace *launch = block ? block->launch->trace : nullptr;
    if (!launch)
        return;
    const std::string time = block->trace ? format(",\"t\":%zu", block->trace->clock) : "";
    std::lock_guard<std::mutex> hold(launch->lock);
    launch->reports = format("{\"event\":\"report\",\"block\":%llu", block->block->linear) + time +
                      ",\"text\":" + quoted(text) + "}\n";
}

void trace_launch_end(LaunchState *state)
{
    LaunchTrace *trace = state->trace;
    if (!trace)
        return;
    Launch &launch = *state->launch;
    write(format("{\"event\":\"launch\",\"launch\":%llu,\"kernel\":%s,\"grid\":%s,\"threads\":%s,"
                 "\"cluster\":%s,\"dynamic_shared\":%zu%s}\n",
                 launch.number, quoted(kernel_name(launch)).c_str(), list(launch.grid).c_str(),
                 list(launch.block).c_str(), list(launch.cluster).c_str(), launch.dynamic_shared,
                 line_json(Site{launch.file, launch.line}).c_str()));
    for (const auto &array : trace->arrays)
        write(array.second);
    for (const auto &block : trace->blocks)
        write(block.second);
    if (trace->cut < launch.blocks) {
        write(format("{\"event\":\"full\",\"blocks\":%llu}\n", trace->cut));
        if (!std::exchange(output.said, true))
            fprintf(stderr,
                    "simt: %s is full: of kernel %s it holds %zu blocks; SIMT_TRACE_BLOCK and "
                    "SIMT_TRACE_WARP choose one, SIMT_TRACE_LIMIT makes room (now %zu MB)\n",
                    output.path.c_str(), kernel_name(launch), trace->blocks.size(),
                    trace->options.bytes >> 20);
    }
    write(trace->reports);
    write(format("{\"event\":\"launch_end\",\"launch\":%llu", launch.number) +
          counters_json(state->counted) + "}\n");
    if (fflush(output.file) != 0)
        report(launch, cudaErrorUnknown, "SIMT_TRACE: cannot write %s: %s", output.path.c_str(),
               strerror(errno));
    delete trace;
}

} /* namespace simt::check */
