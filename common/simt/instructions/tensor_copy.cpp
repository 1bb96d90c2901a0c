/* TMA copies boxes between global and shared memory, by an engine that takes its time. */
#include "instructions/asynchronous.h"
#include "host/memory.h"
#include <algorithm>
#include <ptx.cuh>
#include <simt/atomics.h>

using namespace simt;

constexpr size_t bank_row = 128, sector = 32, chunk = 16;

/* This is the part of one row of a box that lies inside the array. */
struct BoxRow {
    size_t offset; /* in the box, in bytes and without swizzle */
    char *global;
    size_t bytes; /* 0: all of the row is outside */
};

static BoxRow box_row(const Box &box, size_t number)
{
    const TensorMap &map = box.map;
    BoxRow row = {number * box_row_bytes(map), map.address, 0};
    for (unsigned i = 1; i < map.rank; i++) {
        const long long at = box.coordinates[i] + static_cast<long long>(number % map.box[i]);
        number /= map.box[i];
        if (at < 0 || at > map.last[i])
            return row;
        row.global += uint64_t(at) * map.stride[i - 1];
    }
    const long long begin = box.coordinates[0], size = map.last[0] + 1ll;
    const long long first = std::max(begin, 0ll), end = std::min(begin + map.box[0], size);
    if (first >= end)
        return row;
    row.global += first * map.element_bytes;
    row.offset += size_t(first - begin) * map.element_bytes;
    row.bytes = size_t(end - first) * map.element_bytes;
    return row;
}

static size_t box_bytes(const TensorMap &map) { return box_rows(map) * box_row_bytes(map); }

static void load_box(const Box &box)
{
    std::vector<char> bytes(box_bytes(box.map), char(box.map.fill_with_nan ? 0xff : 0));
    for (size_t r = 0; r < box_rows(box.map); r++) {
        const BoxRow row = box_row(box, r);
        memcpy(bytes.data() + row.offset, row.global, row.bytes);
    }
    for (size_t at = 0; at < bytes.size(); at += chunk)
        memcpy(box.shared + swizzled(at, box.map.swizzle_span), bytes.data() + at, chunk);
}

/* Reads the box as it lies in shared memory, without the swizzle. */
static std::vector<char> read_box(const Box &box)
{
    std::vector<char> bytes(box_bytes(box.map));
    for (size_t at = 0; at < bytes.size(); at += chunk)
        memcpy(bytes.data() + at, box.shared + swizzled(at, box.map.swizzle_span), chunk);
    return bytes;
}

static TensorMap map_of(const CUtensorMap *encoded, const Call &call)
{
    TensorMap map;
    memcpy(&map, encoded, sizeof map);
    if (map.mark != tensor_map_mark)
        fail_at(call, "what it was given is no tensor map; cuTensorMapEncodeTiled makes one");
    return map;
}

static Box box_of(const CUtensorMap *map, int x, int y, int z, uint32_t shared, const Call &call)
{
    Box box = {map_of(map, call), {x, y, z}, nullptr};
    if (box.map.rank != 3)
        fail_at(call, "the tensor map has rank %u, the copy 3 coordinates", box.map.rank);
    /* The copy engine moves whole 16-byte chunks; otherwise it is an illegal instruction. */
    const long long bytes = static_cast<long long>(x) * box.map.element_bytes;
    if (bytes % static_cast<long long>(chunk) != 0)
        fail_at(
            call,
            "the box begins %lld bytes into the rows (coordinate %d); it must be a multiple of 16",
            bytes, x);
    const size_t span = box.map.swizzle_span, alignment = span ? swizzle_period(span) : bank_row;
    box.shared = shared_place(shared, box_bytes(box.map), alignment, call);
    return box;
}

/* Checks bounds and order on global memory's side of a copy. Then counts both sides. */
static void touch_global(const Box &box, bool writes, unsigned ranks, const Call &call)
{
    BoxCopy copy = {!writes, &box.map, box.coordinates, box.shared, 0, 0, 0, ranks};
    for (size_t r = 0; r < box_rows(box.map); r++) {
        BoxRow row = box_row(box, r);
        if (row.bytes == 0)
            continue;
        /* The array that a map describes may be larger than the memory that exists. */
        if (in_device_arena(row.global) && !is_device_range(row.global, row.bytes))
            fail_at(call, "the tensor map leads to %p, outside of any allocation", row.global);
        checker->access(row.global, row.bytes, writes ? proxy_write : proxy_read, call.where);
        uintptr_t begin = reinterpret_cast<uintptr_t>(row.global);
        copy.bytes += row.bytes;
        copy.sectors += (begin + row.bytes - 1) / sector - begin / sector + 1;
    }
    copy.wavefronts = (box_bytes(box.map) + bank_row - 1) / bank_row;
    checker->copied(copy, call.where);
}

bool simt::complete_tensor_load(BlockWork &work)
{
    std::vector<size_t> candidates;
    for (size_t i = 0; i < work.loads.size(); i++)
        if (work.loads[i].barrier->waiting)
            candidates.push_back(i);
    if (candidates.empty())
        return false;
    /* The engine keeps no order, so SIMT_ORDER decides. */
    const Order::Kind order = worker->block->launch->order.kind;
    size_t next = order == Order::reversed ? candidates.back() : candidates.front();
    if (order == Order::random || order == Order::overlap)
        next = candidates[scramble(work.random++) % candidates.size()];
    const TensorLoad load = work.loads[next];
    Mbarrier &barrier = *load.barrier;
    work.loads.erase(work.loads.begin() + ptrdiff_t(next));

    Thread *const resting = current_thread;
    /* Memory changes in this thread's name. */
    current_thread = load.thread         ? load.thread
                     : barrier.announcer ? barrier.announcer
                                         : worker->block->thread;
    checker->access(load.shared, load.bytes, proxy_write, load.call.where);
    if (load.is_word)
        memcpy(load.shared, &load.word, load.bytes);
    else
        load_box(load);
    checker->noted("tma_load_done", load.shared, barrier.phase, load.bytes, load.call.where);
    checker->released(&barrier.order[barrier.phase % 2], *barrier.home);
    current_thread = resting;
    count_on_mbarrier(barrier, 0, -static_cast<long long>(load.bytes));
    return true;
}

/* ---- stores: the source must not change between the start and the read ---- */

static void read_store(const TensorStore &store)
{
    const size_t bytes = store.bytes.size();
    if (store.sums ? memcmp(store.shared, store.bytes.data(), bytes) != 0
                   : read_box(store) != store.bytes)
        fail_at(store.call, "the shared memory that it was reading was overwritten; "
                            "tma_store_wait_read() comes first");
    checker->access(store.shared, bytes, proxy_read, store.call.where);
}

void simt::write_stores(ThreadWork &thread, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const TensorStore &store = thread.stores.work[i];
        if (store.sums) {
            simt_atomic_add_floats(store.sums, reinterpret_cast<const float *>(store.bytes.data()),
                                   store.bytes.size() / sizeof(float), store.call.where);
            continue;
        }
        for (size_t r = 0; r < box_rows(store.map); r++) {
            const BoxRow row = box_row(store, r);
            memcpy(row.global, store.bytes.data() + row.offset, row.bytes);
        }
    }
    thread.stores.forget(count);
    thread.stores_read -= count;
}

/* All destinations of a load share this. `shared` is the place in the running block. */
static TensorLoad load_of(uint32_t shared, const CUtensorMap *encoded, int x, int y, int z,
                          unsigned ranks, const Call &call)
{
    const Box box = box_of(encoded, x, y, z, shared, call);
    touch_global(box, false, ranks, call);
    return {box, call, false, 0, box_bytes(box.map), nullptr, nullptr};
}

static void start(TensorLoad load, Mbarrier &barrier, Thread *thread)
{
    load.barrier = &barrier;
    load.thread = thread;
    if (!barrier.fenced)
        fail_at(load.call, "the copy engine does not know the mbarrier yet; mbarrier_init_fence() "
                           "is missing after mbarrier_init()");
    checker->access(load.shared, load.bytes, proxy_write_pending, load.call.where, barrier.home);
    barrier.home->work->loads.push_back(load);
}

void ptx::tma_load(uint32_t shared, const CUtensorMap *encoded, int x, int y, int z,
                   uint64_t *barrier, Site site)
{
    const Call call("tma_load()", site);
    auto &counting = find_mbarrier(barrier, call);
    start(load_of(shared, encoded, x, y, z, 0, call), counting, current_thread);
}

void ptx::tma_load_multicast(uint32_t shared, const CUtensorMap *encoded, int x, int y, int z,
                             uint64_t *barrier, uint16_t ranks, Site site)
{
    const Call call("tma_load_multicast()", site);
    TensorLoad load = load_of(shared, encoded, x, y, z, ranks, call);
    if (ranks == 0 || ranks >> ptx::cluster_blocks())
        fail_at(call, "ranks 0x%x of a cluster of %d blocks", ranks, ptx::cluster_blocks());
    for (unsigned rank : bits(ranks)) {
        const auto address_there = [=](uint32_t own) {
            return ptx::cluster_address(own, int(rank), site);
        };
        const ClusterPlace to = cluster_place(address_there(shared), 1, call);
        const uint32_t counting = address_there(simt_shared_address(barrier));
        load.shared = to.place;
        start(load, find_mbarrier(cluster_place(counting, sizeof *barrier, call), call),
              to.home == worker->block ? current_thread : nullptr);
    }
}

void ptx::cluster_store_async(uint32_t address, int value, uint32_t barrier_address, Site site)
{
    const Call call("cluster_store_async()", site);
    const ClusterPlace to = cluster_place(address, sizeof value, call),
                       at = cluster_place(barrier_address, sizeof(uint64_t), call);
    if (to.home != at.home)
        fail_at(call, "the store goes to block %u of the cluster, the mbarrier is block %u's",
                to.home->rank, at.home->rank);
    start({{{}, {}, to.place}, call, true, value, sizeof value, nullptr, nullptr},
          find_mbarrier(at, call), nullptr);
}

void ptx::tma_store(const CUtensorMap *encoded, int x, int y, int z, uint32_t shared, Site site)
{
    const Call call("tma_store()", site);
    Groups<TensorStore> &stores = thread_work().stores;
    const Box box = box_of(encoded, x, y, z, shared, call);
    /* A load that begins before the array reads zeros; such a store was illegal on an H200. */
    for (unsigned i = 0; i < box.map.rank; i++)
        if (box.coordinates[i] < 0)
            fail_at(call, "coordinate %u of the box is %d; a store may not begin before the array",
                    i, box.coordinates[i]);
    checker->access(box.shared, box_bytes(box.map), proxy_read, call.where);
    touch_global(box, true, 0, call);
    stores.work.push_back({{call, stores.closed}, box, read_box(box), nullptr});
}

void ptx::bulk_add(float *global, uint32_t shared, int bytes, Site site)
{
    const Call call("bulk_add()", site);
    Groups<TensorStore> &stores = thread_work().stores;
    if (bytes <= 0 || size_t(bytes) % chunk || reinterpret_cast<uintptr_t>(global) % chunk)
        fail_at(call, "%d bytes to global address %p; both must be multiples of 16", bytes, global);
    if (in_device_arena(global) && !is_device_range(global, size_t(bytes)))
        fail_at(call, "%d bytes at %p lead outside of any allocation", bytes, global);
    char *const place = shared_place(shared, size_t(bytes), chunk, call);
    checker->access(place, size_t(bytes), proxy_read, call.where);
    stores.work.push_back({{call, stores.closed}, {{}, {}, place}, {place, place + bytes}, global});
}

void ptx::red_add_4(float *global, float4 value, Site site)
{
    const Call call("red.v4.f32", site);
    if (reinterpret_cast<uintptr_t>(global) % sizeof value)
        fail_at(call, "the global address %p is not a multiple of 16", global);
    const float addends[4] = {value.x, value.y, value.z, value.w};
    simt_atomic_add_floats(global, addends, 4, call.where);
}

void ptx::tma_store_commit(void) { thread_work().stores.commit("tma_store_commit"); }

void ptx::tma_store_wait(unsigned pending, bool only_read)
{
    ThreadWork &thread = thread_work();
    const size_t covered = thread.stores.covered(pending);
    for (; thread.stores_read < covered; thread.stores_read++)
        read_store(thread.stores.work[thread.stores_read]);
    checker->noted(only_read ? "tma_store_wait_read" : "tma_store_wait", nullptr, pending, covered,
                   __builtin_return_address(0));
    if (!only_read)
        write_stores(thread, covered);
}

void ptx::tma_prefetch_map(const CUtensorMap *map, Site site)
{
    map_of(map, {"tma_prefetch_map()", site});
}

void ptx::async_proxy_fence(void) { checker->proxy_fence(); }
