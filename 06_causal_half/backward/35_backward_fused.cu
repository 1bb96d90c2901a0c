// needs: sm_90a
/*
 * Idea: one launch. What only waits for memory is done by warps that were idle, while others
 * multiply: D is made before its head's turn comes, dQ is rounded and stored when all is added. And
 * dQ's floats are those of few heads at a time, which L2 should keep, of short sequences at least.
 *
 * Q, O, dO, dQ [batch, heads, seq_q, head_dim], K, V, dK, dV [batch, kv_heads, seq_kv, head_dim],
 * elements of type T; LSE [batch, heads, seq_q], float; row-major. The workspace has
 * backward_wgmma's floats of dQ for places_of() heads of keys, then D, then counters.
 *
 * In backward_persistent one kernel before reads O and dO and stores zeros for all of dQ's floats,
 * and one behind reads these and stores dQ: of a short sequence's time a quarter. Here the three
 * idle warps of the producer's warpgroup, the keepers, draw jobs. A job is a piece of a head, 64
 * rows and 64 features: its share of D; or its part of dQ, which waits until all tiles of the
 * head's keys have added, is stored, and leaves zeros to the head that comes at its place next. A
 * tile of keys begins when its head's D is made and its place is left.
 *
 * Why it ends. Take the first tile that is drawn and not counted. All tiles of the head that had
 * its head's place come before it (places_of()), so they are counted: no job that it waits for, nor
 * any before these (job_of()), waits for a tile any more. Whoever has drawn one of them does it;
 * and while there are some that nobody has drawn, nobody waits at a later one, so keepers, the
 * block's own if no others, draw them. Blocks draw their first tile, too: so this needs none but
 * blocks that run.
 *
 * Cost: global traffic as backward_one_barrier's, but L2 has what is added to dQ's floats and read
 * from them; one or two atomics a job, two a tile of keys, and questions, which are loads. Shared:
 * 48 KB more, a piece a keeper. Where sequences are short all jobs take as long as all products, so
 * the keepers' time is what counts.
 *
 * Where backward_persistent has tiles of 80 queries this rung is backward_persistent: sequences are
 * so long there that the other kernels take little, and there is no room for the keepers' pieces.
 *
 * Source: Osama et al., Stream-K (arXiv:2301.03598), where the last to finish stores a tile;
 * semaphores of dQ in github.com/Dao-AILab/flash-attention, "deterministic".
 */
#include "06_causal_half/06_step.h"
#include "device/device.h"
#include "persistent_keys.cuh"

#include <cuda/atomic>

static const int KEEPERS = WARPGROUP / WARP - 1; /* warps beside the producer */
static const int PIECE = PUT_ROWS * PANEL;       /* four parts, one below the other */

/* Tiles lie in panels of 64 columns, rows of 128 bytes, swizzled as the copy engine does. */
template <class Config>
struct __align__(1024) shared_tiles
{
    typename Config::T K[Bc * Config::HEAD_DIM], V[Bc * Config::HEAD_DIM];
    typename Config::T Q[STAGES][Config::Br * Config::HEAD_DIM];
    typename Config::T dO[STAGES][Config::Br * Config::HEAD_DIM];
    typename Config::T dS[STAGES][Bc * Config::Br]; /* transposed */
    float place[KEEPERS][PIECE];
    float LSE[STAGES][Config::Br], D[STAGES][Config::Br];
    struct key_tile own; /* whose K and V these are; a negative head: no tile is left */
    int uncounted;       /* whose keys the last tile's are, until it is counted; else -1. Here, and
                          * one lane's own, because the producer has few registers, too. */
    uint64_t keys_full, keys_empty, Q_full[STAGES], dO_full[STAGES], empty[STAGES];
};

/* ---- what blocks tell one another ---- */

/* In the workspace behind D, where 8 bytes are aligned: the next job and the next tile of keys to
 * be drawn; for each head of keys how many of its tiles have added to dQ, and how many jobs are
 * done that it begins after. */
struct progress {
    unsigned long long *job;
    int *tile, *added, *ready;
};

static __host__ __device__ __forceinline__ struct progress
progress_of(const struct attention_backward &call, const float *D)
{
    const size_t rows = (size_t)call.batch * call.heads * call.seq_q;
    unsigned long long *const job = (unsigned long long *)(D + rows + rows % 2);
    int *const tile = (int *)(job + 1), *const added = tile + 1;
    return {job, tile, added, added + call.batch * call.kv_heads};
}

/* All that the kernel is told. What keepers need lies here, where reading costs no register. */
struct fused_problem {
    struct backward_problem tiles;
    struct progress progress;
    int between;        /* nanoseconds, from one question of a keeper's to the next */
    int group;          /* heads of queries of a head of keys */
    int pieces, places; /* of a head of keys; heads of keys that have one */
};

/* Release and acquire are a part of counting and asking: __threadfence() beside an atomic orders
 * more than that, and takes longer. */
typedef cuda::atomic_ref<int, cuda::thread_scope_device> shared_counter;

/* Counts one more: whoever sees it sees what this thread, and whoever it waited for, has done. */
static __device__ __forceinline__ void count_own(int *counter)
{
    shared_counter(*counter).fetch_add(1, cuda::memory_order_release);
}

/* The same of all that a warp has done. By a warp. */
static __device__ __forceinline__ void count(int *counter)
{
    __syncwarp(); /* lane 0 counts what all lanes have done */
    if (threadIdx.x % WARP == 0)
        count_own(counter);
}

/* Whether a counter has got there, without waiting. By a warp; one lane asks. */
static __device__ __forceinline__ bool has_counted(int *counter, int wanted)
{
    const bool has = threadIdx.x % WARP == 0 &&
                     shared_counter(*counter).load(cuda::memory_order_acquire) == wanted;
    __syncwarp(); /* the other lanes come after it */
    return __shfl_sync(FULL_MASK, has, 0);
}

/* Asks again and again, with so many nanoseconds between: whoever asks holds up who counts. */
static __device__ __forceinline__ void wait_for_count(int *counter, int wanted, int between)
{
    while (!has_counted(counter, wanted))
        __nanosleep(between);
}

/* ---- the keepers ---- */

/* Makes D of as many rows as a place holds, by a warp; those past `inside`, which may be negative,
 * do not exist. A lane sums up a row, so that nobody waits for neighbours' sums. Of each row, chunk
 * i lies at place i ^ row % 8, so that eight lanes, a row each, meet all banks. */
template <class Config>
static __device__ __forceinline__ void make_D(const struct attention_backward &call, float *D,
                                              size_t row0, int inside, float *place)
{
    typedef typename Config::T T;
    constexpr int CHUNKS = Config::HEAD_DIM / 8, ROWS = PIECE / Config::HEAD_DIM;
    const int lane = threadIdx.x % WARP;
    uint4 *const dO = (uint4 *)place, *const O = dO + ROWS * CHUNKS;
#pragma unroll 1 /* little code: consumers need the instruction cache */
    for (int i = lane; i < ROWS * CHUNKS; i += WARP) {
        const int row = i / CHUNKS, col = i % CHUNKS * 8, own = i ^ row % 8;
        const size_t at = (row0 + row) * call.head_dim + col;
        const int bytes = row < inside && col < call.head_dim ? 16 : 0;
        cp_async_16_zero_fill(shared_address(&dO[own]), (const T *)call.dO + at, bytes);
        cp_async_16_zero_fill(shared_address(&O[own]), (const T *)call.O + at, bytes);
    }
    cp_async_commit();
    cp_async_wait<0>();
    __syncwarp(); /* all lanes' copies are there */
#pragma unroll 1
    for (int row = lane; row < ROWS; row += WARP) {
        float sum = 0.0f;
#pragma unroll 4
        for (int i = 0; i < CHUNKS; i++) {
            const int own = row * CHUNKS + (i ^ row % 8);
            float a[8], b[8];
            load_eight(a, (const T *)&dO[own]);
            load_eight(b, (const T *)&O[own]);
            for (int k = 0; k < 8; k++)
                sum += a[k] * b[k];
        }
        if (row < inside)
            D[row0 + row] = sum;
    }
}

static __device__ __forceinline__ void clear_piece(float *sums)
{
#pragma unroll
    for (int i = 0; i < PIECE; i += 4 * WARP)
        *(float4 *)(own_floats(sums) + i) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

/* Brings a piece to its place, by a warp. A lane has 16 bytes of eight columns of a part; the four
 * lanes of a row change places, so that reading by rows meets all banks. */
static __device__ __forceinline__ void bring_piece(float *place, const float *sums)
{
    const int lane = threadIdx.x % WARP, chunk = lane ^ lane / 8;
#pragma unroll
    for (int i = 0; i < PIECE; i += 4 * WARP)
        cp_async_16(shared_address(&place[i + 4 * chunk]), own_floats(sums) + i);
    cp_async_commit();
    cp_async_wait<0>();
    __syncwarp(); /* all lanes' copies are there */
}

/* Stores it as rows of dQ of a head, by a warp: a lane has eight columns of two rows at a time. */
template <class Config>
static __device__ __forceinline__ void store_piece(const struct attention_backward &call,
                                                   size_t head_row, int row0, int col0,
                                                   const float *place)
{
    typedef typename Config::T T;
    const int g = threadIdx.x % 8, own_col = threadIdx.x % WARP / 8 * 8;
#pragma unroll 1
    for (int i = 0; i < PIECE / PART * 2; i++) {
        const int row = row0 + i / 2 * PART_ROWS + g, col = i % 2 * (PANEL / 2) + own_col;
        const float *const own = &place[i / 2 * PART + col * PART_ROWS + g * 16];
        uint32_t upper[4], lower[4];
#pragma unroll
        for (int t = 0; t < 4; t++) {
            const float4 x = *(const float4 *)&own[4 * (t ^ g / 2)];
            upper[t] = pack_pair<T>(x.x * call.scale, x.y * call.scale);
            lower[t] = pack_pair<T>(x.z * call.scale, x.w * call.scale);
        }
        T *const dQ = (T *)call.dQ + (head_row + row) * call.head_dim + col0 + col;
        if (row < call.seq_q && col0 + col < call.head_dim)
            *(uint4 *)dQ = *(const uint4 *)upper;
        if (row + 8 < call.seq_q && col0 + col < call.head_dim)
            *(uint4 *)&dQ[8 * call.head_dim] = *(const uint4 *)lower;
    }
}

/* By a warp: draws jobs until none is left. */
template <class Config>
static __device__ __forceinline__ void keep(float *place, const struct fused_problem &fused)
{
    const struct backward_problem &problem = fused.tiles;
    const struct attention_backward &call = problem.call;
    const struct progress &progress = fused.progress;
    const int heads = problem.order.heads, places = fused.places, pieces = fused.pieces;
    const int panels = Config::HEAD_DIM / PANEL;
    for (;;) {
        const unsigned long long own = threadIdx.x % WARP == 0 ? atomicAdd(progress.job, 1ULL) : 0;
        const struct job job = job_of(__shfl_sync(FULL_MASK, own, 0), pieces, heads, places);
        if (job.kv_head >= heads)
            return;
        const int down = padded_queries<Config>(call.seq_q) / PUT_ROWS;
        const int row0 = job.piece % down * PUT_ROWS, column = job.piece / down;
        const int panel = column % panels;
        const size_t head_row = (size_t)(job.kv_head * fused.group + column / panels) * call.seq_q;
        float *const sums =
            problem.dQ + ((size_t)(job.kv_head % places) * pieces + job.piece) * PIECE;
        if (job.makes_D) {
            if (job.kv_head < places)
                clear_piece(sums);
            const int first = row0 + panel * (PUT_ROWS / panels);
            make_D<Config>(call, (float *)problem.D, head_row + first, call.seq_q - first, place);
            count(&progress.ready[job.kv_head]); /* by then all have read their rows */
        } else {
            int *const added = &progress.added[job.kv_head];
            wait_for_count(added, problem.order.row_tiles, fused.between);
            bring_piece(place, sums);
            if (job.kv_head + places < heads) {
                clear_piece(sums);
                count(&progress.ready[job.kv_head + places]);
            }
            store_piece<Config>(call, head_row, row0, panel * PANEL, place);
            __syncwarp(); /* all have read before the next piece comes */
        }
    }
}

/* ---- the producer ---- */

/* Counts the block's last tile, where there is one that is not counted yet. Lane 0 does, who has
 * waited for it itself. */
static __device__ __forceinline__ void count_last(const struct progress &progress, int &uncounted)
{
    if (threadIdx.x % WARP == 0 && uncounted >= 0) {
        count_own(&progress.added[uncounted]);
        uncounted = -1;
    }
}

/* Brings the keys and queries of all tiles that the block takes, by a warp. */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ void produce_all(struct shared_tiles<Config> *shared,
                                                   const struct fused_problem &fused)
{
    const struct backward_problem &problem = fused.tiles;
    const struct attention_backward &call = problem.call;
    const struct progress &progress = fused.progress;
    const int seq_q = call.seq_q, group = fused.group;
    struct ring_position at = {0, 0};
    uint32_t phase = 1; /* on a new barrier the phase before the first counts as over */
    if (threadIdx.x % WARP == 0)
        shared->uncounted = -1;
    for (;; phase ^= 1) {
        int number = threadIdx.x % WARP == 0 ? atomicAdd(progress.tile, 1) : 0;
        number = __shfl_sync(FULL_MASK, number, 0);
        if (number >= problem.order.tiles)
            break;
        const struct key_tile own = key_tile_of(problem.order, number, Bc);
        const struct round round = round_of<Config, CAUSAL>(call, own);
        int *const ready = &progress.ready[own.kv_head];
        const int jobs = own.kv_head < fused.places ? fused.pieces : 2 * fused.pieces;
        /* Asked while the last keys are multiplied; but not waited for until they are counted: they
         * may be what it waits for. */
        const bool is_ready = has_counted(ready, jobs);
        mbarrier_wait(&shared->keys_empty, phase); /* all of the last keys is added */
        if (!is_ready) {
            count_last(progress, shared->uncounted);
            wait_for_count(ready, jobs, 100); /* tensor cores wait, too */
        }
        if (threadIdx.x % WARP == 0) {
            shared->own = own;
            load_keys(shared, problem, own);
        }
        for (int head = own.kv_head * group; head < (own.kv_head + 1) * group; head++)
            for (int left = round.tiles, row0 = round.begin; left > 0;
                 left--, row0 = next_row<Config>(round, row0, seq_q)) {
                produce_queries(shared, problem, at, head, row0);
                if (left < round.tiles) /* both stages are asked for: a count takes a while */
                    count_last(progress, shared->uncounted);
            }
        count_last(progress, shared->uncounted);
        if (threadIdx.x % WARP == 0)
            shared->uncounted = own.kv_head;
    }
    mbarrier_wait(&shared->keys_empty, phase);
    count_last(progress, shared->uncounted);
    if (threadIdx.x % WARP == 0) {
        shared->own = {-1, 0};
        /* no bytes are expected: this arrival alone completes the phase */
        mbarrier_arrive(&shared->keys_full);
    }
}

template <class Config, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, 1)
    backward_fused(const __grid_constant__ struct fused_problem problem)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<Config> *shared = (struct shared_tiles<Config> *)shared_memory;
    /* the shuffle tells the compiler that all lanes have the same value */
    const int warpgroup = __shfl_sync(FULL_MASK, threadIdx.x / WARPGROUP, 0);

    if (threadIdx.x == 0) {
        mbarrier_init(&shared->keys_empty, WARPGROUP * CONSUMERS);
        initialise_barriers(shared);
    }
    __syncthreads(); /* the barriers exist before any thread waits on them */

    /* The launch's registers, 168 a thread, move from the producer to the consumers. */
    if (warpgroup == CONSUMERS) {
        registers_decrease<24>();
        const int warp = threadIdx.x / WARP - CONSUMERS * WARPGROUP / WARP;
        if (warp == 0)
            produce_all<Config, CAUSAL>(shared, problem);
        else
            keep<Config>(shared->place[warp - 1], problem);
    } else {
        registers_increase<240>();
        if (warpgroup == 0)
            consume_all<Config, CAUSAL, 0>(shared, problem.tiles);
        else
            consume_all<Config, CAUSAL, 1>(shared, problem.tiles);
    }
}

template <typename T, int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention_backward *call)
{
    typedef config<T, HEAD_DIM> Config;
    const struct tile_order order = key_order_of(call, Bc);
    struct device_limits device;
    cudaError_t status = current_device(&device);
    if (status != cudaSuccess)
        return status;
    const int blocks = resident_blocks(order.tiles, &device);
    const int queries = padded_queries<Config>(call->seq_q);
    struct fused_problem problem;
    problem.between = min(100 * order.row_tiles, 4000);
    problem.group = call->heads / call->kv_heads;
    problem.places = places_of(order, blocks);
    problem.pieces = problem.group * (HEAD_DIM / PANEL) * (queries / PUT_ROWS);
    const int head_places = problem.places * problem.group;
    float *const D = (float *)call->workspace + (size_t)head_places * queries * HEAD_DIM;
    problem.progress = progress_of(*call, D);
    status = describe<Config>(&problem.tiles, call, order, D, head_places);
    if (status == cudaSuccess)
        status = cudaMemsetAsync(
            problem.progress.job, 0,
            sizeof(unsigned long long) + (1 + 2 * (size_t)order.heads) * sizeof(int), call->stream);
    return status == cudaSuccess
               ? launch_tiles<Config>(backward_fused<Config, CAUSAL>, problem, blocks, call->stream)
               : status;
}

extern "C" cudaError_t attention_backward_fused(const struct attention_backward *call)
{
    if (backward_has_tall_tiles(call))
        return attention_backward_persistent(call);
    return LAUNCH(call);
}
