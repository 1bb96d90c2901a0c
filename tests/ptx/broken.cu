// needs: sm_90a
/*
 * These are correct kernels, and what is left of them when something is forgotten. On a GPU most of
 * these mistakes hang, or go unnoticed for years. The CPU backend must find each.
 */
#include "launches.cuh"
#include <ptx.cuh>
#include "device/clusters.cuh"

static const int ROW_WORDS = 32;
static const int BOX_BYTES = BROKEN_WORDS * 4;

/* Returns where word i lies in a box that is swizzled in 128 bytes. */
static __device__ int swizzled(int i)
{
    const int row = i / ROW_WORDS, chunk = i % ROW_WORDS / 4 ^ row % 8;
    return row * ROW_WORDS + chunk * 4 + i % 4;
}

/* ---- cp.async: thread i copies rows' quarters, another thread reads them ---- */

__global__ void copy_async(enum mistake mistake, const uint32_t *in, uint32_t *out)
{
    __shared__ __align__(16) uint32_t tile[BROKEN_WORDS];
    for (int i = threadIdx.x; i < BROKEN_WORDS; i += blockDim.x)
        tile[i] = 0;
    __syncthreads(); /* the zeros are there before the copies */
    for (int i = threadIdx.x * 4; i < BROKEN_WORDS; i += blockDim.x * 4)
        cp_async_16(shared_address(&tile[i]) + (mistake == COPY_ASYNC_MISALIGNED ? 4 : 0), in + i);
    if (mistake != COPY_ASYNC_NO_COMMIT)
        cp_async_commit();
    if (mistake != COPY_ASYNC_NO_WAIT)
        cp_async_wait<0>();
    __syncthreads(); /* every thread has waited for its own copies */
    for (int i = threadIdx.x; i < BROKEN_WORDS; i += blockDim.x)
        out[i] = tile[i];
    if (mistake == BULK_ADD_MISALIGNED)
        bulk_add((float *)&out[1], shared_address(tile), sizeof tile);
    if (mistake == RED_MISALIGNED)
        red_add_4((float *)&out[1], make_float4(0.0f, 0.0f, 0.0f, 0.0f));
}

/* ---- ldmatrix: a warp turns 32 rows of 4 words around and back ---- */

__global__ void load_matrices(enum mistake mistake, const uint32_t *in, uint32_t *out)
{
    extern __shared__ __align__(16) uint32_t rows[];
    const int lane = threadIdx.x;
    for (int i = 0; i < 4; i++)
        rows[4 * lane + i] = in[4 * lane + i];
    __syncthreads(); /* all rows are there */
    uint32_t r[4], address = shared_address(&rows[4 * lane]);
    if (mistake == LDMATRIX_MISALIGNED)
        address += 8;
    if (mistake == LDMATRIX_OUTSIDE)
        address += 16;
    if (mistake != LDMATRIX_HALF_WARP || lane < 16)
        ldmatrix_x4(r, address);
    for (int i = 0; i < 4; i++)
        out[(i * 8 + lane / 4) * 4 + lane % 4] = r[i];
}

/* ---- mbarriers and TMA loads: one thread requests the box, all wait for it ---- */

__global__ void load_box(enum mistake mistake, const __grid_constant__ CUtensorMap map,
                         uint32_t *out)
{
    extern __shared__ __align__(1024) uint32_t box[];
    __shared__ uint64_t arrived;
    if (threadIdx.x == 0 && mistake != MBARRIER_NOT_INITIALISED) {
        mbarrier_init(&arrived, 1);
        if (mistake != MBARRIER_NO_FENCE)
            mbarrier_init_fence();
    }
    if (mistake != MBARRIER_NO_BARRIER_AFTER_INIT)
        __syncthreads(); /* the mbarrier exists before anyone waits for it */
    if (threadIdx.x == 0) {
        if (mistake == MBARRIER_NO_EXPECT)
            mbarrier_arrive(&arrived);
        else if (mistake == MBARRIER_TOO_MANY_BYTES)
            mbarrier_arrive_expect(&arrived, BOX_BYTES + 128);
        else if (mistake == MBARRIER_TOO_FEW_BYTES)
            mbarrier_arrive_expect(&arrived, BOX_BYTES - 128);
        else
            mbarrier_arrive_expect(&arrived, BOX_BYTES);
        if (mistake == MBARRIER_TOO_MANY_ARRIVALS)
            mbarrier_arrive(&arrived);
        tma_load(shared_address(box) + (mistake == TMA_MISALIGNED ? 128 : 0), &map, 0, 0, 0,
                 &arrived);
    }
    if (mistake == MBARRIER_TRY_FOREVER) {
        while (!mbarrier_try_wait(&arrived, 0) || !mbarrier_try_wait(&arrived, 1)) {
        }
    }
    if (mistake == MBARRIER_WRONG_PARITY)
        mbarrier_wait(&arrived, 1);
    else if (mistake != TMA_NO_WAIT && (mistake != TMA_READ_TOO_EARLY || threadIdx.x < 32))
        mbarrier_wait(&arrived, 0);

    for (int i = threadIdx.x; i < BROKEN_WORDS; i += blockDim.x)
        out[i] = box[swizzled(i)];

    /* The same box is loaded once more, to the same place. */
    if (mistake != TMA_REFILLED_TOO_EARLY)
        __syncthreads(); /* all threads have read the box before it is filled again */
    if (mistake == NO_MISTAKE || mistake == TMA_REFILLED_TOO_EARLY) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect(&arrived, BOX_BYTES);
            tma_load(shared_address(box), &map, 0, 0, 0, &arrived);
        }
        mbarrier_wait(&arrived, 1);
    }
}

/* ---- TMA stores: all threads write the box, one stores it ---- */

__global__ void store_box(enum mistake mistake, const __grid_constant__ CUtensorMap map,
                          const uint32_t *in)
{
    extern __shared__ __align__(1024) uint32_t box[];
    for (int i = threadIdx.x; i < BROKEN_WORDS; i += blockDim.x)
        box[swizzled(i)] = in[i];
    if (mistake != TMA_STORE_NO_PROXY_FENCE)
        async_proxy_fence();
    __syncthreads(); /* the box is complete, and visible to the copy engine */
    if (threadIdx.x == 0) {
        tma_store(&map, 0, 0, 0, shared_address(box));
        if (mistake != TMA_STORE_NO_COMMIT)
            tma_store_commit();
        if (mistake == TMA_STORE_SOURCE_OVERWRITTEN)
            box[0] = 0;
        if (mistake != TMA_STORE_NO_WAIT)
            tma_store_wait_read<0>();
    }
    __syncthreads(); /* the box has been read before it is overwritten */
    box[threadIdx.x] = 0;
}

/* ---- wgmma: `in` as a 64 x 64 matrix A, and as the rows of a 128 x 64 matrix of which B is the
 * transpose ---- */

__global__ void __launch_bounds__(256, 1)
    multiply(enum mistake mistake, const uint32_t *in, uint32_t *out)
{
    extern __shared__ __align__(1024) uint32_t image[];
    for (int i = threadIdx.x; i < 3 * BROKEN_WORDS; i += blockDim.x)
        image[i] = in[i % BROKEN_WORDS];
    if (mistake != WGMMA_NO_PROXY_FENCE)
        async_proxy_fence();
    __syncthreads(); /* A and B are complete, and visible to the tensor cores */

    float d[64] = {};
    if (threadIdx.x < 128 && (mistake != WGMMA_ONE_WARP_MISSING || threadIdx.x < 96)) {
        uint32_t a = shared_address(image), b = shared_address(image + BROKEN_WORDS);
        if (mistake == WGMMA_MISALIGNED)
            a += 128;
        if (mistake == WGMMA_DIFFERENT_DESCRIPTORS && threadIdx.x >= 32)
            b += 32;
        if (mistake != WGMMA_NO_FENCE)
            wgmma_fence();
        wgmma_shared<128>(d, wgmma_descriptor(a, 0, 1024), wgmma_descriptor(b, 0, 1024), 1);
        if (mistake == WGMMA_ACCUMULATOR_WRITTEN)
            d[5] *= 2.0f;
        if (mistake == WGMMA_OPERAND_OVERWRITTEN)
            image[threadIdx.x] = 0;
        if (mistake != WGMMA_NO_COMMIT)
            wgmma_commit();
        if (mistake == WGMMA_ACCUMULATOR_READ)
            out[threadIdx.x * 16] = __float_as_uint(d[0]);
        if (mistake != WGMMA_NO_WAIT)
            wgmma_wait<0>();
        wgmma_hold(d);
        for (int i = mistake == WGMMA_ACCUMULATOR_READ; i < 16; i++)
            out[threadIdx.x * 16 + i] = __float_as_uint(d[i]);
    }
    if (mistake == NAMED_BARRIER_TOO_MANY && threadIdx.x < 64)
        named_barrier_sync(3, 96);
    if (mistake == REGISTERS_TOO_MANY && threadIdx.x >= 128)
        registers_increase<256>(); /* no warpgroup has given any registers back */
}

/* ---- clusters: each of two blocks stores half of the words into the other, which writes them to
 * `out` ---- */

__global__ void swap_halves(enum mistake mistake, const uint32_t *in, uint32_t *out)
{
    extern __shared__ float2 place[];
    const int rank = cluster_rank(), other = 1 - rank, pairs = BROKEN_WORDS / 4;
    const bool second_warp = rank == 1 && threadIdx.x >= 32;
    const float2 *half = (const float2 *)in + rank * pairs;
    float2 *received = (float2 *)out + other * pairs;

    if (mistake != CLUSTER_WAITS_ONLY &&
        (mistake != CLUSTER_HALF_WARP || !second_warp || threadIdx.x < 48))
        cluster_arrive_relaxed(); /* this block has begun */
    if (mistake == CLUSTER_ARRIVES_TWICE)
        cluster_arrive();
    if (mistake == CLUSTER_WARP_MISSING && second_warp)
        __syncthreads();
    if (mistake == CLUSTER_BLOCK_MISSING && rank == 1)
        named_barrier_sync(1, 96);
    if (mistake == CLUSTER_OVERWRITTEN)
        place[threadIdx.x] = make_float2(0.0f, 0.0f);
    if (mistake != CLUSTER_NOT_BEGUN)
        cluster_wait(); /* the other block has begun, too */

    for (int i = threadIdx.x; i < pairs && (mistake != CLUSTER_ENDS_UNAWARE || rank == 1);
         i += blockDim.x) {
        uint32_t address = shared_address(&place[i]);
        if (mistake == CLUSTER_MISALIGNED)
            address += 4;
        if (mistake == CLUSTER_OUTSIDE)
            address += pairs * sizeof(float2);
        if (mistake == CLUSTER_NO_ADDRESS)
            cluster_store(~address, half[i]);
        cluster_store(cluster_address(address, mistake == CLUSTER_RANK_OUTSIDE ? 2 : other),
                      half[i]);
    }
    if (mistake == CLUSTER_ENDS_TOO_EARLY || mistake == CLUSTER_ENDS_UNAWARE)
        return;
    if (mistake == CLUSTER_NOT_BEGUN)
        cluster_wait();
    if (mistake != CLUSTER_NO_LAST_BARRIER) {
        if (mistake == CLUSTER_LAST_BARRIER_RELAXED)
            cluster_arrive_relaxed();
        else
            cluster_arrive();
        if (mistake == CLUSTER_READ_TOO_EARLY)
            received[threadIdx.x] = place[threadIdx.x];
        cluster_wait(); /* all words have arrived */
    }
    for (int i = threadIdx.x; i < pairs; i += blockDim.x)
        received[i] = place[i];
}

/* Block 0 loads the box into both blocks, twice into the same place, and sends block 1 a number
 * that it adds. Each block writes its half of the words to `out`. */
__global__ void load_for_both(enum mistake mistake, const __grid_constant__ CUtensorMap map,
                              uint32_t *out)
{
    extern __shared__ __align__(1024) uint32_t box[];
    __shared__ uint64_t full, empty, number_full;
    __shared__ int number;
    const int rank = cluster_rank(), half = BROKEN_WORDS / 2;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&empty, 2);
        mbarrier_init(&number_full, 1);
        mbarrier_init_fence();
    }
    cluster_arrive();
    cluster_wait(); /* the barriers exist in both blocks */
    for (int round = 0; round < 2; round++) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect(&full, BOX_BYTES);
            cluster_mbarrier_arrive(cluster_address(shared_address(&empty), 0));
            if (rank == 0) {
                if (mistake != MULTICAST_PLACE_NOT_EMPTY)
                    mbarrier_wait(&empty, round);
                tma_load_multicast(shared_address(box), &map, 0, 0, 0, &full,
                                   mistake == MULTICAST_RANK_OUTSIDE ? 7 : 3);
                const int barrier = mistake == CLUSTER_STORE_ASYNC_BARRIER_ELSEWHERE ? 0 : 1;
                cluster_store_async(cluster_address(shared_address(&number), 1), round,
                                    cluster_address(shared_address(&number_full), barrier));
            } else {
                mbarrier_arrive_expect(&number_full, sizeof number);
            }
        }
        mbarrier_wait(&full, round);
        if (rank == 1 && mistake != CLUSTER_STORE_ASYNC_NO_WAIT)
            mbarrier_wait(&number_full, round);
        for (int i = threadIdx.x; i < half; i += blockDim.x)
            out[rank * half + i] = box[rank * half + i] + (rank == 1 ? number : 0);
        __syncthreads(); /* all threads have read */
    }
    cluster_arrive();
    cluster_wait(); /* no block ends while the other accesses it */
}

cudaError_t ptx_broken(enum mistake mistake, bool correct, const CUtensorMap *load,
                       const CUtensorMap *store, const uint32_t *in, uint32_t *out)
{
    const enum mistake made = correct ? NO_MISTAKE : mistake;
    if (mistake <= RED_MISALIGNED)
        copy_async<<<1, 64>>>(made, in, out);
    else if (mistake <= LDMATRIX_OUTSIDE)
        load_matrices<<<1, 32, 512>>>(made, in, out);
    else if (mistake <= TMA_REFILLED_TOO_EARLY)
        load_box<<<1, 64, BOX_BYTES + 1024>>>(made, *load, out);
    else if (mistake <= TMA_STORE_SOURCE_OVERWRITTEN)
        store_box<<<1, 64, BOX_BYTES>>>(made, *store, in);
    else if (mistake <= REGISTERS_TOO_MANY)
        multiply<<<1, 256, 3 * BOX_BYTES>>>(made, in, out);
    else if (mistake <= CLUSTER_NO_ADDRESS)
        launch_in_clusters(2, 2, 64, BOX_BYTES / 2, NULL, swap_halves, made, in, out);
    else
        launch_in_clusters(2, 2, 64, BOX_BYTES, NULL, load_for_both, made, *load, out);
    return finished();
}
