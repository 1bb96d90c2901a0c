/* The blocks of a cluster each have an OS thread, and with it shared memory. They take turns, so
 * what they share needs no lock. The turn passes on when no thread of the block can go on. */
#pragma once

#include "run/engine.h"
#include <condition_variable>
#include <optional>

namespace simt
{

struct Member {
    Block *block;
    Worker *worker;
    bool ended; /* its shared memory no longer exists */
};

struct Cluster {
    unsigned long long number; /* in the order in which they are launched */
    unsigned blocks;
    Member member[max_cluster_blocks] = {}; /* by rank */

    std::mutex mutex;
    std::condition_variable turn;
    unsigned joined = 0, ended = 0, left = 0;
    bool cancelled = false;                    /* the launch failed before all had joined */
    unsigned char rank_at[max_cluster_blocks]; /* the order in which they take turns */
    unsigned running = 0;                      /* whose turn it is: an index into rank_at */
    unsigned idle = 0; /* how many in a row found no thread that can go on */

    /* These belong to the barrier of the cluster. */
    unsigned threads;             /* that have not returned */
    unsigned long long phase = 0; /* how often it has opened */
    unsigned arrived = 0;

    check::ClusterState *checked = nullptr;

    Cluster(const Launch &launch, unsigned long long number)
        : number(number), blocks(launch.cluster_blocks), threads(blocks * launch.threads)
    {
        put_in_order(rank_at, blocks, launch.order, number);
    }
};

/* Gives the block of number `turn` its cluster and rank, or `alone` for one without others. */
void join_cluster(Block &block, unsigned long long turn, std::optional<Cluster> &alone);
/* Waits for the other blocks, and for its turn. Returns false when the launch failed. */
bool enter_cluster(Block &block);
/* The block has ended. Waits for the others, which may yet look for its shared memory. */
void leave_cluster(Block &block);
void forget_clusters();

/* Gives the turn away until it comes back; false when no thread of the cluster can go on. */
bool let_cluster_run(Block &block);
/* Does the same for a thread that polls and could go on. */
void yield_to_cluster(Block &block);

} /* namespace simt */
