/* Asynchronous accesses: see checker_async.h. */
#include "check/check.h"
#include "check/checker_async.h"

namespace simt
{
namespace checker
{

void asynchronous(const void *address, size_t bytes, Asynchronous how, const void *where)
{
    static const Kind kinds[] = {proxy_read_access, proxy_write_pending, proxy_write_access,
                                 copy_pending,      copy_access,         copy_access,
                                 atomic_read};
    on_range(address, bytes, kinds[how], where);
}

void counted(const void *pointer, size_t bytes, bool writes, const void *where)
{
    BlockState *block = current_block_state();
    ThreadState *thread = current_thread_state(block);
    uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    const Place &place = find_place(block, where);
    if (find_region(address))
        count_global(thread, place, address, static_cast<unsigned>(bytes), writes);
    else
        count_shared(thread, place, address, static_cast<unsigned>(bytes), writes);
}

void counted_bulk(bool shared, bool writes, size_t bytes, size_t pieces)
{
    struct counters &counted = current_block_state()->counted;
    if (shared) {
        (writes ? counted.shared_stores : counted.shared_loads)++;
        counted.shared_wavefronts += pieces;
        counted.shared_wavefronts_ideal += pieces;
    } else if (writes) {
        counted.global_stores++;
        counted.global_store_requests++;
        counted.global_store_bytes += bytes;
        counted.global_store_sectors += pieces;
    } else {
        counted.global_loads++;
        counted.global_load_requests++;
        counted.global_load_bytes += bytes;
        counted.global_load_sectors += pieces;
    }
}

void proxy_fence()
{
    BlockState *block = current_block_state();
    settle_overwrites(block);
    order_proxy_fence(current_thread_state(block));
}

} /* namespace checker */
} /* namespace simt */
