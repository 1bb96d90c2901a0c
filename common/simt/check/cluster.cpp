/* Blocks that share a cluster: what its barrier makes known, and accesses to each other's shared
 * memory. They run one at a time (cluster.h), so they may look at each other's state. */
#include "check/check.h"
#include "run/cluster.h"

#include <algorithm>

namespace simt::check
{

static BlockState *state_of(const Cluster &cluster, unsigned rank)
{
    return cluster.member[rank].block->checked;
}

int cluster_rank_of(const BlockState *block, uint32_t number)
{
    const Cluster &cluster = *block->block->cluster;
    if (block->number == number)
        return int(block->block->rank);
    for (unsigned rank = 0; cluster.blocks > 1 && rank < cluster.blocks; rank++)
        if (state_of(cluster, rank)->number == number)
            return int(rank);
    return -1;
}

/* ---- what is known ---- */

/* Null before the thread knows of any phase. */
static const ClusterKnowledge *knowledge(const ThreadState *thread)
{
    const uint32_t phase = known_cluster_phase(thread);
    const ClusterState *state = thread->block->block->cluster->checked;
    return phase == 0 ? nullptr : &state->completed[phase % 2];
}

bool cluster_orders(const ThreadState *thread, const Stamp &earlier)
{
    const ClusterKnowledge *known = knowledge(thread);
    const int rank = known ? cluster_rank_of(thread->block, earlier.block) : -1;
    return rank >= 0 && (earlier.time < known->full[rank] ||
                         earlier.time < known->known[rank][earlier.thread()]);
}

void add_cluster_knowledge(const ThreadState *thread, std::vector<uint32_t> &known)
{
    const ClusterKnowledge *from = knowledge(thread);
    const unsigned rank = thread->block->block->rank;
    for (size_t i = 0; from && i < known.size(); i++)
        known[i] = std::max({known[i], from->full[rank], from->known[rank][i]});
}

/* ---- the barrier ---- */

static ClusterState *cluster_state(Cluster &cluster)
{
    if (!cluster.checked) {
        ClusterState *state = new ClusterState();
        for (std::vector<uint32_t> &known : state->arriving.known)
            known.assign(cluster.member[0].block->threads, 0);
        cluster.checked = state;
    }
    return cluster.checked;
}

/* What the thread knows about its own block: about others it knows from earlier phases. */
static void publish_to_cluster(const ThreadState *thread, ClusterKnowledge &arriving)
{
    const BlockState *block = thread->block;
    const unsigned rank = block->block->rank;
    arriving.full[rank] = std::max(arriving.full[rank], block->full_time);
    join(arriving.known[rank], known_as_of(thread, 0, thread->warp->full_time, thread->time + 1));
    add_seen(arriving.seen, thread->seen);
    add_seen(arriving.seen, block->seen);
}

void arrive_at_cluster(ThreadState *thread, bool relaxed)
{
    settle_overwrites(thread->block);
    ClusterState *state = cluster_state(*thread->block->block->cluster);
    if (relaxed)
        return;
    publish_to_cluster(thread, state->arriving);
    step(thread);
}

void open_cluster(Cluster &cluster)
{
    ClusterState *state = cluster_state(cluster);
    state->completed[cluster.phase % 2] = state->arriving;
    for (unsigned rank = 0; rank < cluster.blocks; rank++)
        if (!cluster.member[rank].ended) {
            BlockState *block = state_of(cluster, rank);
            block->counted.barriers++;
            if (block->trace)
                trace_barrier(block, "cluster_barrier", nowhere, -1);
        }
}

void leave_cluster_barrier(ThreadState *thread)
{
    thread->cluster_phase = uint32_t(thread->thread->cluster_waits);
    add_seen(thread->seen, knowledge(thread)->seen);
    learnt(thread->warp);
}

void forget_cluster(Cluster &cluster)
{
    delete cluster.checked;
    cluster.checked = nullptr;
}

/* ---- accesses ---- */

static void note_visit(BlockState *home, const Visit &visit)
{
    for (Visit &known : home->visits)
        if (known.stamp.block == visit.stamp.block &&
            known.stamp.thread() == visit.stamp.thread()) {
            known = visit;
            return;
        }
    home->visits.push_back(visit);
}

void store_in_cluster(BlockState *home, uintptr_t address, unsigned bytes, unsigned kind,
                      const void *where)
{
    BlockState *block = current_block_state();
    ThreadState *thread = current_thread_state(block);
    settle_overwrites(block);
    if (thread->look_at)
        order_look(thread);

    const Stamp stamp = stamp_of(thread, kind, find_place(block, where, shared_space, true, 4));
    if (home != block && known_cluster_phase(thread) == 0)
        report_visit(thread, home, stamp, where,
                     "which may not have begun: no cluster_wait() has come before");
    shadow_access(thread, home, home->shared, address, bytes, stamp, where);
    /* A block that waits for a copy is there until it comes; one that does not is reported at its
     * end. */
    if (home != block && kind != proxy_write_pending)
        note_visit(home, Visit{stamp, where});
}

void settle_visits(BlockState *block)
{
    for (const Visit &visit : block->visits) {
        bool known = false;
        for (unsigned t = 0; t < block->block->threads && !known; t++)
            known = ordered_before(visit.stamp, &block->thread[t]);
        if (!known)
            report_visit(&block->thread[current_thread->linear], block, visit.stamp, visit.where,
                         "which may have ended: no cluster_arrive() and cluster_wait() come after");
    }
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
            *home = state_of(cluster, rank);
        return address - begin + number_of(worker->shared_begin);
    }
    return address;
}

} /* namespace simt::check */
