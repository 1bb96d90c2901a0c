#include "runner.h"

#include "case.h"
#include "keeper.h"
#include "refusal.h"
#include "stopwatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------------------------- */
/* Calling a row */

static size_t no_workspace(const struct kernel *kernel, const long long *sizes)
{
    (void)kernel;
    (void)sizes;
    return 0;
}

static cudaError_t run_matmul(const struct kernel *kernel, const long long *sizes,
                              void *const *device, void *workspace, cudaStream_t stream)
{
    (void)workspace;
    return matmul_run((const struct matmul_kernel *)kernel, device[0], device[1], device[2],
                      (int)sizes[MATMUL_M], (int)sizes[MATMUL_N], (int)sizes[MATMUL_K], stream);
}

static cudaError_t run_softmax(const struct kernel *kernel, const long long *sizes,
                               void *const *device, void *workspace, cudaStream_t stream)
{
    (void)workspace;
    return softmax_run((const struct softmax_kernel *)kernel, device[0], device[1],
                       (int)sizes[SOFTMAX_ROWS], (int)sizes[SOFTMAX_COLS], stream);
}

static cudaError_t run_attention(const struct kernel *kernel, const long long *sizes,
                                 void *const *device, void *workspace, cudaStream_t stream)
{
    struct attention call = attention_of(sizes);
    call.Q = device[0];
    call.K = device[1];
    call.V = device[2];
    call.O = device[3];
    call.LSE = device[4];
    call.workspace = workspace;
    call.stream = stream;
    return attention_run((const struct attention_kernel *)kernel, &call);
}

static size_t workspace_attention(const struct kernel *kernel, const long long *sizes)
{
    const struct attention_kernel *row = (const struct attention_kernel *)kernel;
    const struct attention call = attention_of(sizes);
    return row->workspace ? row->workspace(&call) : 0;
}

const struct lab_calls lab_matmul = {sizeof(struct matmul_kernel), run_matmul, no_workspace};
const struct lab_calls lab_softmax = {sizeof(struct softmax_kernel), run_softmax, no_workspace};
const struct lab_calls lab_attention = {sizeof(struct attention_kernel), run_attention,
                                        workspace_attention};

/* The row of this name; null when there is none. */
static const struct kernel *find(const struct lab_calls *calls, const void *table, const char *name)
{
    const struct kernel *kernel = table;
    while (kernel->name && strcmp(kernel->name, name) != 0)
        kernel = (const struct kernel *)((const char *)kernel + calls->row_bytes);
    return kernel->name ? kernel : NULL;
}

/* ---------------------------------------------------------------------------------------------- */
/* One request */

struct run {
    const struct lab_calls *calls;
    const struct kernel *kernel;
    const struct lab_request *request;
    struct lab_answer *answer;
    void *memory[LAB_IMAGES], *device[LAB_IMAGES];
    cudaStream_t stream;
};

static void end(struct run *run, enum lab_end how, const char *reason)
{
    run->answer->end = how;
    snprintf(run->answer->reason, sizeof run->answer->reason, "%s", reason);
}

static void end_with_error(struct run *run, cudaError_t status)
{
    char text[sizeof run->answer->reason];
    snprintf(text, sizeof text, "%s%s%.200s", cudaGetErrorString(status),
             *backend_report() ? ": " : "", backend_report());
    end(run, LAB_CUDA_ERROR, text);
}

static cudaError_t copy_in(struct run *run)
{
    const struct lab_request *request = run->request;
    cudaError_t status = cudaStreamCreateWithFlags(&run->stream, cudaStreamNonBlocking);
    for (int t = 0; t < LAB_IMAGES && status == cudaSuccess; t++) {
        const size_t bytes = request->image_bytes[t];
        if (bytes == 0)
            continue;
        if ((status = cudaMalloc(&run->memory[t], bytes)) != cudaSuccess)
            return status;
        status = cudaMemcpy(run->memory[t], (const char *)request + request->image[t], bytes,
                            cudaMemcpyHostToDevice);
        run->device[t] = (char *)run->memory[t] + request->data[t];
        char *const behind = (char *)run->device[t] + request->bytes[t];
        backend_fence(run->memory[t], request->data[t]);
        backend_fence(behind, (size_t)((char *)run->memory[t] + bytes - behind));
    }
    return status == cudaSuccess ? cudaDeviceSynchronize() : status;
}

static cudaError_t copy_out(struct run *run)
{
    cudaError_t status = cudaSuccess;
    for (int t = 0; t < LAB_IMAGES && status == cudaSuccess; t++)
        if (run->memory[t])
            status =
                cudaMemcpyAsync((char *)run->answer + run->request->image[t], run->memory[t],
                                run->request->image_bytes[t], cudaMemcpyDeviceToHost, run->stream);
    return status == cudaSuccess ? cudaStreamSynchronize(run->stream) : status;
}

static cudaError_t launch(struct run *run)
{
    void *const workspace = run->answer->workspace > 0 ? run->device[LAB_WORKSPACE] : NULL;
    return run->calls->run(run->kernel, run->request->sizes, run->device, workspace, run->stream);
}

static cudaError_t time_laps(struct run *run)
{
    enum { WARM_UP = 2, MAX_LAPS = 1000 };
    static float lap[MAX_LAPS];
    const size_t laps = (size_t)run->request->laps;
    struct stopwatch watch;
    cudaError_t status = stopwatch_create(&watch, run->stream);
    for (size_t i = 0; i < WARM_UP + laps && status == cudaSuccess; i++)
        if ((status = stopwatch_start(&watch)) == cudaSuccess &&
            (status = launch(run)) == cudaSuccess)
            status = stopwatch_stop(&watch, &lap[i < WARM_UP ? 0 : i - WARM_UP]);
    if (status == cudaSuccess)
        run->answer->milliseconds = stopwatch_median(lap, laps);
    return status;
}

static void run_request(struct run *run)
{
    struct lab_answer *answer = run->answer;
    if (backend_architecture() == 0) {
        end(run, LAB_NO_DEVICE, "there is no device");
        return;
    }
    answer->workspace = run->calls->workspace(run->kernel, run->request->sizes);
    if (answer->workspace > run->request->bytes[LAB_WORKSPACE]) {
        end(run, LAB_WORKSPACE_TOO_LARGE, "asks for more workspace than there is");
        return;
    }
    cudaError_t status = copy_in(run);
    if (status != cudaSuccess) {
        end_with_error(run, status);
        return;
    }

    refusal_clear();
    backend_counters_reset();
    keeper_begin(run->stream, run->memory, run->request->image_bytes, LAB_IMAGES);
    status = launch(run);
    const int strays = keeper_end();
    if ((status == cudaErrorInvalidValue || status == cudaErrorNotSupported) && *refusal()) {
        end(run, status == cudaErrorNotSupported ? LAB_SKIPPED : LAB_REFUSED, refusal());
        return;
    }
    if (status == cudaSuccess)
        status = copy_out(run); /* on the stream: what runs elsewhere is not waited for */
    if (status == cudaSuccess)
        status = cudaDeviceSynchronize();
    answer->counted = backend_counters(&answer->counters);
    if (status == cudaSuccess && run->request->laps > 0 && run->request->laps <= 1000)
        status = time_laps(run);
    if (status != cudaSuccess)
        end_with_error(run, status);
    else if (strays > 0)
        end(run, LAB_OTHER_STREAM, "uses a stream other than the one it is given");
    else
        end(run, LAB_RAN, "");
}

int runner_main(const struct lab_calls *calls, const void *table)
{
    const struct lab_request *request =
        mmap(NULL, sizeof *request, PROT_READ, MAP_PRIVATE, LAB_REQUEST_FD, 0);
    if (request == MAP_FAILED || request->magic != LAB_MAGIC)
        return 2;
    const size_t total = request->total;
    request = mmap(NULL, total, PROT_READ, MAP_PRIVATE, LAB_REQUEST_FD, 0);
    struct lab_answer *answer =
        mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, LAB_ANSWER_FD, 0);
    if (request == MAP_FAILED || answer == MAP_FAILED)
        return 2;
    if (*request->order)
        setenv("SIMT_ORDER", request->order, 1);

    struct run run = {.calls = calls,
                      .kernel = find(calls, table, request->kernel),
                      .request = request,
                      .answer = answer};
    if (!run.kernel)
        return 2;
    answer->magic = LAB_MAGIC;
    run_request(&run);
    _exit(0);
}
