/*
 * Clusters: blocks that run together. Each has an OS thread, and with it shared memory of its own;
 * they take turns, so that only one of them runs at a time and what they share needs no lock. The
 * turn goes on when no thread of the block can.
 */
#pragma once

#include "run/state.h"
#include <condition_variable>
#include <mutex>

namespace simt
{

/* One block of a cluster. */
struct Member {
    Block *block;
    Worker *worker;
    bool ended; /* its shared memory is not there any more */
};

struct Cluster {
    unsigned blocks;
    Member member[max_cluster_blocks]; /* by rank */

    std::mutex mutex;
    std::condition_variable turn;
    unsigned joined, ended, left;
    bool cancelled;                            /* the launch failed before all had joined */
    unsigned char rank_at[max_cluster_blocks]; /* the order in which they take turns */
    unsigned running;                          /* whose turn it is: an index into rank_at */
    unsigned idle; /* how many in a row found no thread that can go on */

    /* The barrier of the cluster. */
    unsigned long long phase; /* how often it has opened */
    unsigned threads;         /* that have not returned */
    unsigned arrived;

    check::ClusterState *checked;
};

/* The launch's block that runs as number `turn`; those of a cluster follow each other. */
unsigned long long launched_in_turn(const Launch &launch, unsigned long long turn);

/* Gives a block that is about to run its cluster and its rank; `alone`: for one without others. */
void join_cluster(Block &block, Cluster &alone);
/* Waits for the other blocks, and for this one's turn. False when the launch failed meanwhile. */
bool enter_cluster(Block &block);
/* The block has ended. Waits for the others, which may yet look for its shared memory. */
void leave_cluster(Block &block);
/* The launch is over. */
void forget_clusters();

/* Gives the turn away until it comes back. False when no thread of the cluster can go on. */
bool let_cluster_run(Block &block);
/* The same for a thread that polls, and could go on. */
void yield_to_cluster(Block &block);

} /* namespace simt */
