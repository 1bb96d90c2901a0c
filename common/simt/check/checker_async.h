/*
 * What asynchronous instructions tell the checker, beside checker.h: their accesses begin at one
 * moment and end at another, count otherwise than a thread's own, and reach shared memory by the
 * asynchronous proxy.
 */
#ifndef SIMT_CHECKER_ASYNC_H
#define SIMT_CHECKER_ASYNC_H

#include "check/checker.h"

namespace simt
{
namespace checker
{

enum Asynchronous {
    proxy_read, /* by the asynchronous proxy: an operand of wgmma, the source of a TMA store */
    proxy_write_begins, /* the destination of a TMA load, from here ... */
    proxy_write_ends,   /* ... to here */
    copy_begins,        /* cp.async, which is not of the asynchronous proxy */
    copy_ends,
    barrier_begins,   /* an mbarrier is initialised ... */
    barrier_operation /* ... and used */
};

/*
 * The running thread's asynchronous work touches memory: bounds and order are checked, nothing is
 * counted. Between its begin and its end nobody may touch what is written.
 */
void asynchronous(const void *address, size_t bytes, Asynchronous how, const void *where);

/* An access of the running thread, up to 16 bytes, is counted, with the same one of the other lanes
 * as one request. */
void counted(const void *address, size_t bytes, bool writes, const void *where);

/* One instruction of one thread moves many bytes: the global sectors, or the shared wavefronts,
 * that it takes. */
void counted_bulk(bool shared, bool writes, size_t bytes, size_t pieces);

/* fence.proxy.async: what the running thread knows of is visible to the asynchronous proxy. */
void proxy_fence();

} /* namespace checker */
} /* namespace simt */

#endif
