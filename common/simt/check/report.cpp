/* Writes the sentences: what happened, where, to which memory, and what to do if that is clear. */
#include "check/check.h"
#include "host/errors.h"
#include <regex>
#include <set>

namespace simt::check
{

/* ---- who and where ---- */

static std::string at(const void *where)
{
    std::string line = source_line(where);
    return line.empty() ? format("code address %p", where) : line;
}

static const char *name_of(const LaunchState *launch) { return kernel_name(*launch->launch); }

static std::string at(const Stamp &stamp) { return at(place_address(stamp.place())); }

static std::string triple(uint64_t linear, dim3 shape)
{
    return format("(%zu,%zu,%zu)", linear % shape.x, linear / shape.x % shape.y,
                  linear / shape.x / shape.y);
}

static std::string block_name(const LaunchState *launch, uint32_t block)
{
    return "block " + triple(block - launch->first_block, launch->launch->grid);
}

static std::string thread_name(const LaunchState *launch, unsigned thread)
{
    return "thread " + triple(thread, launch->launch->block);
}

/* Returns "kernel tiled<16>(float const*, float*), block (1,0,0), thread (3,0,0)". */
static std::string culprit(const ThreadState *thread)
{
    return format("kernel %s, ", name_of(thread->block->launch)) + describe(*thread->thread);
}

static std::string verb(unsigned kind)
{
    static const std::string ways[] = {"", " (volatile)", " atomically"};
    if (kind == atomic_update)
        return "updates atomically";
    if (is_pending(kind))
        return "starts an asynchronous copy into it";
    if (kind == copy_write)
        return "copies asynchronously into it";
    const std::string what = writes(kind) ? "write" : "read";
    return kind < proxy_read ? what + "s" + ways[kind / 2] : "has asynchronous work " + what;
}

static std::string deed(const LaunchState *launch, const Stamp &stamp)
{
    return thread_name(launch, stamp.thread()) + " " + verb(stamp.kind()) + " at " + at(stamp);
}

static std::string plural(unsigned long long count, const char *noun)
{
    return format("%llu %s%s", count, noun, count == 1 ? "" : "s");
}

static std::string access_at(const Touch &t)
{
    return (t.write ? "writes " : "reads ") + plural(t.bytes, "byte") + " at " + at(t.where);
}

[[noreturn]] static void fail(BlockState *block, const std::string &text, cudaError_t error)
{
    block->held = {};
    settle_uninitialised(block); /* its consequences are less important */
    report(*block->launch->launch, error, "%s", text.c_str());
    abandon_block();
}

void blame(const ThreadState *thread, const std::string &text, cudaError_t error)
{
    fail(thread->block, text + " (" + culprit(thread) + ")", error);
}

/* Returns "tile" for "tile<16>": what SIMT_IGNORE calls a kernel. */
static std::string bare(const std::string &name) { return name.substr(0, name.find('<')); }

/* ---- which memory ---- */

static std::vector<std::string> parameters(const std::string &signature)
{
    std::vector<std::string> found(1);
    size_t depth = 1;
    for (size_t i = signature.find('(') + 1; i < signature.size(); i++) {
        const char c = signature[i];
        depth += c == '(' || c == '<';
        depth -= c == ')' || c == '>';
        if (depth == 0)
            return found;
        if (depth == 1 && c == ',')
            found.emplace_back();
        else
            found.back() += c;
    }
    return {};
}

/* Returns the size of what a parameter points to; 0 where its name does not say. */
static size_t element_bytes(const std::string &type)
{
    size_t bytes = 1;
    for (const std::string of_this_size :
         {"char", "short|__half|__nv_bfloat16", "int|float|__half2",
          "long( long)?|double|float2|int2", "float4|int4|uint4"}) {
        const std::regex pointer(" *((un)?signed )?(" + of_this_size +
                                 ")( const)?( volatile)?\\*.*");
        if (std::regex_match(type, pointer))
            return bytes;
        bytes *= 2;
    }
    return 0;
}

Arguments pointer_arguments(const LaunchState *launch)
{
    const Launch &made = *launch->launch;
    Arguments pointers;
    const char *arguments = static_cast<const char *>(made.arguments);
    for (size_t offset = 0; offset + sizeof(uintptr_t) <= made.argument_bytes;
         offset += sizeof(uintptr_t)) {
        uintptr_t value;
        memcpy(&value, arguments + offset, sizeof value);
        if (in_device_arena(memory_at(value)))
            pointers.push_back({value, "", 0});
    }
    const std::vector<std::string> types = parameters(made.function.signature);
    const std::vector<std::string> names = parameter_names(name_of(launch), types.size());
    std::vector<size_t> positions;
    for (size_t i = 0; i < types.size(); i++)
        if (types[i].find('*') != std::string::npos)
            positions.push_back(i);
    /* otherwise null pointers, or structs with pointers */
    for (size_t i = 0; positions.size() == pointers.size() && i < pointers.size(); i++) {
        const size_t position = positions[i];
        pointers[i].name = names.empty() ? format("argument %zu", position + 1) : names[position];
        pointers[i].element_bytes = element_bytes(types[position]);
    }
    return pointers;
}

/* Returns "Q", the kernel's parameter that leads there, or "argument 2"; "" for none. */
static std::string argument_name(const LaunchState *launch, const Allocation &allocation)
{
    for (const Argument &argument : pointer_arguments(launch))
        if (!argument.name.empty() && find_allocation(memory_at(argument.pointer)) == &allocation)
            return argument.name;
    return "";
}

/* Returns what the kernel's source calls an array at or next to an address, or else the program. */
static std::string array_name(const LaunchState *launch, const Allocation &in, uintptr_t address)
{
    const std::string argument = argument_name(launch, in);
    const bool in_source = !argument.empty() && argument.find(' ') == std::string::npos;
    Argument array;
    return !in_source && find_described(in.checked, address, &array) ? array.name : argument;
}

static uintptr_t distance_to(const Allocation &allocation, uintptr_t address)
{
    uintptr_t begin = number_of(allocation.begin), end = begin + allocation.bytes;
    return address < begin ? begin - address : address >= end ? address - end + 1 : 0;
}

/* Returns what an address outside all allocations was probably meant for: the nearest argument. */
static const Allocation *meant_allocation(const LaunchState *launch, uintptr_t address)
{
    const Allocation *meant = find_allocation(memory_at(address));
    if (meant && distance_to(*meant, address) == 0)
        return meant;
    const Allocation *nearest = nullptr;
    for (const Argument &argument : pointer_arguments(launch)) {
        const Allocation *given = find_allocation(memory_at(argument.pointer));
        if (given && (!nearest || distance_to(*given, address) < distance_to(*nearest, address)))
            nearest = given;
    }
    return nearest ? nearest : meant;
}

static std::string allocation_name(const LaunchState *launch, const Allocation &allocation)
{
    const std::string argument = argument_name(launch, allocation);
    return format("allocation %llu (%s%s%s)", allocation.number,
                  plural(allocation.bytes, "byte").c_str(),
                  argument.empty() ? "" : ", the kernel's ", argument.c_str());
}

/* What lies between guard zones is named by the kernel, Q, or else by the program. */
static std::string buffer_name(const LaunchState *launch, const Allocation &in, uintptr_t address)
{
    const Region *region = in.checked;
    const std::string name = allocation_name(launch, in);
    const std::string array = array_name(launch, in, address);
    if (region->fences.empty() && array == argument_name(launch, in))
        return name;
    const std::string bytes = plural(region->open.end - region->open.begin, "byte");
    return array.empty() ? "the " + bytes + " between the guard zones of " + name
                         : array + " (" + bytes + ")";
}

/* Says where in global memory an address lies, counted from where the program has its pointer. */
static std::string global_name(const LaunchState *launch, uintptr_t address)
{
    const Region *region = find_region(address);
    if (!region || !region->allocation)
        return "a __device__ variable";
    const Argument *argument = nullptr;
    const Arguments arguments = pointer_arguments(launch);
    for (const Argument &each : arguments)
        if (find_region(each.pointer) == region && each.pointer <= address &&
            (!argument || each.pointer > argument->pointer))
            argument = &each;
    Argument described;
    if ((!argument || !argument->element_bytes) && find_described(region, address, &described) &&
        described.pointer <= address)
        argument = &described;
    if (argument && argument->element_bytes)
        return format("element %zu of %s", (address - argument->pointer) / argument->element_bytes,
                      argument->name.c_str());
    return format("byte %zu of ", address - region->open.begin) +
           buffer_name(launch, *region->allocation, address);
}

static std::string shared_name(uintptr_t address)
{
    address = own_place(address, nullptr);
    if (within(address, worker->dynamic_begin, worker->dynamic_end))
        return format("byte %zu of the dynamic shared memory",
                      address - number_of(worker->dynamic_begin));
    size_t offset = address - number_of(worker->shared_begin), begin = 0, bytes = 0;
    std::string variable = shared_variable_before(offset, &begin, &bytes);
    if (variable.empty())
        return "an unnamed variable";
    return format("%s, byte %zu of %zu", variable.c_str(), offset - begin, bytes);
}

/* ---- races ---- */

/* Splits "folder/file.cu:12". Returns false where the line is not known. */
static bool split_line(const std::string &place, std::string *file, int *line)
{
    static const std::regex form("(.*):(\\d+)");
    std::smatch part;
    if (!std::regex_match(place, part, form))
        return false;
    *file = part.str(1);
    *line = stoi(part[2]);
    return true;
}

static bool same_file(const std::string &one, const std::string &other)
{
    return one.substr(one.rfind('/') + 1) == other.substr(other.rfind('/') + 1);
}

/* Says between which lines, "folder/file.cu:12", a barrier is missing, or which should stand there.
 * If the last one stands between them, the earlier line came second, in a loop's next round. */
static std::string missing_barrier(const LaunchState *launch, bool one_warp,
                                   const std::string &first, const std::string &second, Site last)
{
    const char *barrier = one_warp ? "__syncwarp() or __syncthreads()" : "__syncthreads()";
    std::string file, other;
    int one = 0, two = 0;
    const bool known = split_line(first, &file, &one) && split_line(second, &other, &two);
    if (known && first == second)
        return format("a %s is missing between them, unless line %d should be an atomic operation",
                      barrier, one);
    if (!known || !same_file(file, other))
        return format("a %s is missing between them", barrier);
    const auto [before, after] = std::minmax(one, two);
    const bool same = last.file && same_file(last.file, file);
    const bool round = same && before < last.line && last.line < after;
    const MissingWait missing = {before, after, round, one_warp};
    const int idle = idle_barrier(file, missing, pointer_arguments(launch));
    return (idle ? format("the barrier at line %d stands in the wrong place: it must come", idle)
                 : format("a %s is missing", barrier)) +
           (round ? format(" after line %d, before line %d comes round again", after, before)
                  : format(" between line %d and line %d", before, after));
}

static bool is_atomic(const Stamp &stamp)
{
    return stamp.kind() >= atomic_read && stamp.kind() <= atomic_update;
}

static bool one_is_atomic(const Stamp &first, const Stamp &second)
{
    return is_atomic(first) != is_atomic(second);
}

/* Returns whether both accesses would be allowed within a block: they are atomic or volatile. */
static bool allowed_within_block(const Stamp &first, const Stamp &second)
{
    return std::min(conflict_kind(first.kind()), conflict_kind(second.kind())) >= volatile_read;
}

/* `second_block` is null when it may be over. */
static std::string advice_between_blocks(const LaunchState *launch, const BlockState *second_block,
                                         const Race &race)
{
    const auto &[address, first, second, look] = race;
    /* What the second block looked at may have told it that the first is done. It needs a fence. */
    const std::string block = block_name(launch, first.block);
    if (is_atomic(first) && is_atomic(second))
        return "; the operation at " + at(first.narrow() ? first : second) +
               " is atomic for its own block only: two blocks need the device's scope "
               "(atomicAdd() and not atomicAdd_block(), cuda::thread_scope_device)";
    const ThreadState *thread = second_block ? &second_block->thread[second.thread()] : nullptr;
    const std::string told = "; the operation at " + at(place_address(look.place)) +
                             " tells it that " + block + " is done";
    if (thread && would_be_ordered_by_fence(first, thread))
        return told + ", but a __threadfence() or a barrier is missing between that and " +
               at(second);
    if (thread && would_be_ordered_by_wider_fence(first, thread))
        return told + ", but the fence of " + block + " after " + at(first) +
               " is for its own block only: a __threadfence() is missing";
    if (allowed_within_block(first, second))
        return format("; volatile orders nothing between blocks: make both accesses atomic "
                      "(SIMT_IGNORE=volatile:%s takes volatile ones for atomic)",
                      bare(name_of(launch)).c_str());
    if (writes(first.kind()) && look.address)
        return "; if the operation at " + at(place_address(look.place)) +
               " is what tells it that " + block + " is done, a __threadfence() of " + block +
               " is missing between " + at(first) + " and the operation that says so";
    if (one_is_atomic(first, second))
        return "; make the other access atomic too: nothing orders the blocks of one launch";
    return "; nothing orders the blocks of one launch: use an atomic operation or a second launch, "
           "or publish the data with __threadfence() and an atomic flag";
}

/* Says which wait should have ended the copy before the read. */
static std::string wait_for_copy(const Stamp &copy, const Stamp &read)
{
    std::string file;
    int line = 0;
    const bool pending = copy.kind() == copy_pending;
    if ((!pending && copy.kind() != copy_write) || !split_line(at(read), &file, &line))
        return "";
    return misplaced_copy_wait(file, line, {copy.thread() == read.thread(), pending});
}

static std::string advice_within_block(const LaunchState *launch, const BlockState *block,
                                       uintptr_t address, const Stamp &first, const Stamp &second)
{
    if (one_is_atomic(first, second))
        return "; make the other access atomic too, or put a __syncthreads() between them";
    const std::string wait = wait_for_copy(first, second);
    if (is_pending(first.kind()))
        return "; no thread has waited for the copy in between" + (wait.empty() ? "" : ": " + wait);
    if (!wait.empty())
        return "; " + wait;
    if (is_pending(second.kind()))
        return "; the copy may start only when the other is done, or the other must wait for the "
               "copy";
    const bool both_write = writes(first.kind()) && writes(second.kind());
    if (both_write && first.place() == second.place())
        return "; two threads store different values in one place";
    /* A lock, or a flag, which would do if it had the fences. */
    const ThreadState &thread = block->thread[second.thread()];
    const std::string told = "; the operation at " + at(place_address(block->last_look.place)) +
                             " tells it that " + thread_name(launch, first.thread()) +
                             " is done, but a __threadfence_block() ";
    if (would_be_ordered_by_fence(first, &thread))
        return told + "or a barrier is missing between that and " + at(second);
    if (writes(first.kind()) && block->last_look.address && block->last_looker == second.thread() &&
        block->last_look_time == block->full_time &&
        memory_at(address) != block->last_look.address &&
        first.thread() / warp_size != second.thread() / warp_size)
        return "; if the operation at " + at(place_address(block->last_look.place)) +
               " is what tells it that " + thread_name(launch, first.thread()) +
               " is done, a __threadfence_block() of " + thread_name(launch, first.thread()) +
               " is missing between " + at(first) + " and the operation that says so";
    const unsigned warp = first.thread() / warp_size;
    const bool one_warp = warp == second.thread() / warp_size;
    return "; " + missing_barrier(launch, one_warp, at(first), at(second),
                                  one_warp ? block->warp[warp].last_barrier : block->last_barrier);
}

/* Returns in which turn the block of an access runs; 0 where the order is drawn. */
static unsigned long long turn_of(const LaunchState *launch, const Stamp &stamp)
{
    const unsigned long long linear = stamp.block - launch->first_block;
    const Order::Kind order = launch->launch->order.kind;
    if (order == Order::reversed)
        return launch->blocks - 1 - linear;
    return order == Order::random ? 0 : linear;
}

static std::string race_text(const LaunchState *launch, const BlockState *block, const Race &race)
{
    const auto &[address, first, second, look] = race;
    const bool shared = !find_region(address), two_blocks = first.block != second.block;
    std::string text = "race on global memory (";
    if (shared) {
        const BlockState *home = nullptr;
        own_place(address, &home);
        text = "race on shared memory (" + shared_name(address) +
               (two_blocks ? " of " + block_name(launch, home->number) : "");
    } else {
        text += global_name(launch, address);
    }
    text += "): ";
    const bool swapped = two_blocks && turn_of(launch, first) > turn_of(launch, second);
    for (const bool other : {swapped, !swapped}) {
        const Stamp &side = other ? second : first;
        if (two_blocks)
            text += block_name(launch, side.block) + " ";
        text += deed(launch, side) + (other == swapped ? ", " : "");
    }
    if (!two_blocks)
        text += advice_within_block(launch, block, address, first, second);
    else if (block && !one_is_atomic(first, second) && cluster_rank_of(block, first.block) >= 0 &&
             cluster_rank_of(block, second.block) >= 0)
        text += "; a cluster_arrive() and a cluster_wait() are missing between them";
    else
        text += advice_between_blocks(launch, block, race);
    const char *name = name_of(launch);
    text += format(" (kernel %s", name);
    text += two_blocks ? "" : ", " + block_name(launch, first.block);
    return text + format("; SIMT_IGNORE=race:%s lets it pass)", bare(name).c_str());
}

static void let_pass(LaunchState *launch, const std::string &text)
{
    std::lock_guard<std::mutex> hold(launch->lock);
    if (launch->passed++ == 0)
        launch->first_passed = text;
}

void tell_what_passed(const LaunchState *launch)
{
    static std::set<std::string> told;
    const char *name = name_of(launch);
    if (launch->passed > 0 && told.insert(name).second)
        fprintf(stderr, "simt: SIMT_IGNORE lets %s of kernel %s pass, the first: %s\n",
                plural(launch->passed, "report").c_str(), name, launch->first_passed.c_str());
}

void report_race(LaunchState *launch, BlockState *block, const Race &race)
{
    const bool many = launch->passes_races && launch->passed > 0;
    const std::string text = many ? "" : race_text(launch, block, race);
    if (launch->passes_races)
        return let_pass(launch, text);
    /* If blocks ran one after another, the later of the two would find it. */
    const auto turn = std::max(turn_of(launch, race.first), turn_of(launch, race.second));
    report_in_turn(*launch->launch, turn, cudaErrorLaunchFailure, text);
    if (!block)
        return;
    block->uninitialised.thread = nullptr; /* it may be this very access */
    if (std::exchange(block->block->turn, std::max(block->block->turn, turn)) < turn)
        return; /* until it has to wait, the earlier goes on: it may race with one that is earlier
                   still */
    block->held = {};
    abandon_block();
}

void report_visit(BlockState *block, const BlockState *home, const Stamp &visit, const char *how)
{
    const LaunchState *launch = block->launch;
    fail(block,
         "shared memory of another block: " + block_name(launch, visit.block) + " " +
             deed(launch, visit) + " in " + block_name(launch, home->number) + ", " + how +
             format(" (kernel %s)", name_of(launch)),
         cudaErrorLaunchFailure);
}

void report_unfenced(const ThreadState *thread, uintptr_t address, const Stamp &write,
                     const Stamp &read)
{
    const LaunchState *launch = thread->block->launch;
    blame(thread, "shared memory without a proxy fence (" + shared_name(address) +
                      "): " + thread_name(launch, write.thread()) + " writes at " + at(write) +
                      ", and the asynchronous work started at " + at(read) +
                      " would not see it; async_proxy_fence() is missing after the write");
}

void report_uninitialised(const Uninitialised &found)
{
    LaunchState *launch = found.thread->block->launch;
    const uintptr_t address = found.read.address;
    const bool global = find_region(address);
    const std::string text =
        (global ? "uninitialised global memory (" + global_name(launch, address)
                : "uninitialised shared memory (" + shared_name(address)) +
        "): " + access_at(found.read) +
        (global ? " that neither a kernel nor the host has written ("
                : " that no thread of this block has written (") +
        culprit(found.thread) +
        format("; SIMT_IGNORE=uninitialised:%s lets it pass)", bare(name_of(launch)).c_str());
    if (launch->passes_uninitialised)
        return let_pass(launch, text);
    fail(found.thread->block, text, cudaErrorLaunchFailure);
}

/* ---- out of bounds ---- */

/* Returns "out of bounds: writes 4 bytes at file.cu:12, 8 bytes past the end of ". */
static std::string out_of_bounds(const Touch &touch, uintptr_t begin, uintptr_t end)
{
    const uintptr_t address = touch.address;
    return "out of bounds: " + access_at(touch) + ", " +
           (address < begin  ? plural(begin - address, "byte") + " before the start of "
            : address > end  ? plural(address - end, "byte") + " past the end of "
            : address == end ? "just past the end of "
                             : "across the end of ");
}

static std::string outside_allocation(const LaunchState *launch, const Touch &touch)
{
    const Allocation *allocation = meant_allocation(launch, touch.address);
    if (!allocation)
        return "out of bounds: " + access_at(touch) + ", where no memory was ever allocated";
    if (allocation->freed && distance_to(*allocation, touch.address) == 0)
        return format("use after free: %s, byte %zu of %s, which was freed",
                      access_at(touch).c_str(), touch.address - number_of(allocation->begin),
                      allocation_name(launch, *allocation).c_str());
    const Reach &open = allocation->checked->open;
    return out_of_bounds(touch, open.begin, open.end) +
           buffer_name(launch, *allocation, touch.address);
}

static std::string outside_dynamic_shared(const Touch &touch)
{
    const uintptr_t begin = number_of(worker->dynamic_begin), end = number_of(worker->dynamic_end);
    return out_of_bounds(touch, begin, end) +
           (begin == end
                ? "the dynamic shared memory, of which the launch asked for none: give its size as "
                  "the third launch parameter"
                : format("the %zu bytes of dynamic shared memory that the launch asked for",
                         end - begin));
}

static std::string outside_variable(const Touch &touch)
{
    size_t offset = 0, size = 0;
    const uintptr_t shared = number_of(worker->shared_begin);
    const std::string variable = shared_variable_before(touch.address - shared, &offset, &size);
    if (variable.empty())
        return "out of bounds: " + access_at(touch) + ", before the first shared variable";
    return out_of_bounds(touch, shared + offset, shared + offset + size) + "the shared variable " +
           variable + " (" + plural(size, "byte") + ")";
}

void report_touch(const ThreadState *thread, const Touch &touch)
{
    if (within(touch.address, worker->dynamic_begin, worker->dynamic_begin + max_shared_per_block))
        blame(thread, outside_dynamic_shared(touch));
    if (within(touch.address, worker->shared_begin, worker->shared_end))
        blame(thread, outside_variable(touch));
    if (find_region(touch.address) || in_device_arena(memory_at(touch.address)))
        blame(thread, outside_allocation(thread->block->launch, touch), cudaErrorIllegalAddress);
    const bool null = touch.address < 65536;
    blame(thread,
          (null ? "null pointer: " : "host pointer in a kernel: ") + access_at(touch) +
              format(", address %#zx", touch.address) +
              (null ? ""
                    : ", which is not device memory; allocate it with cudaMalloc and copy the "
                      "data there"),
          cudaErrorIllegalAddress);
}

/* This is printed at once: the access itself is about to end the program, as it does with a GPU. */
void report_host_access(const Touch &touch)
{
    if (touch.write && belongs_to_judge(touch.address)) {
        fprintf(stderr, "simt: host code %s, which is no variable of its own\n",
                access_at(touch).c_str());
        abort(); /* before it is written */
    }
    const Region *region = find_region(touch.address);
    if (!region || !region->allocation || region->allocation->for_host_too())
        return;
    const std::string text =
        format("device pointer on the host: host code %s, byte %zu of allocation %llu; copy "
               "the data with cudaMemcpy",
               access_at(touch).c_str(), touch.address - region->begin, region->allocation->number);
    fprintf(stderr, "simt: %s\n", text.c_str());
    kernel_failed(cudaErrorIllegalAddress, text.c_str());
}

} /* namespace simt::check */
