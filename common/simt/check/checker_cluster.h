/* What clusters tell the checker, beside checker.h. */
#ifndef SIMT_CHECKER_CLUSTER_H
#define SIMT_CHECKER_CLUSTER_H

#include "check/checker.h"

namespace simt
{
namespace checker
{

/* The running thread arrives at the barrier of its cluster; relaxed: without publishing what it
 * did. */
void cluster_arrived(bool relaxed);
/* The barrier opens: all have arrived. Once for the cluster. */
void cluster_barrier_completed(Cluster &cluster);
/* The running thread goes on after it. */
void cluster_waited();

/* The running thread touches shared memory of `home`, a block of its cluster that has not ended. */
void cluster_access(Block &home, const void *address, size_t bytes, bool writes, const void *where);

/* All its blocks are done. */
void cluster_end(Cluster &cluster);

} /* namespace checker */
} /* namespace simt */

#endif
