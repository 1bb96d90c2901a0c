#include "runner.h"

#include "case.h"
#include "deferred_launches.h"
#include "harness/refusal.h"
#include "harness/stopwatch.h"
#include "problems/attention.h"
#include "problems/attention_backward.h"
#include "problems/matmul.h"
#include "problems/softmax.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

const struct problem lab_matmul = {.row_bytes = sizeof(struct matmul_kernel),
                                   .run = matmul_run_sizes};
const struct problem lab_softmax = {.row_bytes = sizeof(struct softmax_kernel),
                                    .run = softmax_run_sizes};
const struct problem lab_attention = {.row_bytes = sizeof(struct attention_kernel),
                                      .run = attention_run_sizes,
                                      .workspace = attention_workspace};
const struct problem lab_attention_backward = {.row_bytes =
                                                   sizeof(struct attention_backward_kernel),
                                               .run = attention_backward_run_sizes,
                                               .workspace = attention_backward_workspace};

/* ---------------------------------------------------------------------------------------------- */
/* One request */

struct run {
    const struct problem *problem;
    const struct kernel *kernel;
    struct lab_request request;
    struct lab_answer *answer; /* the images follow it */
    void *memory[LAB_IMAGES], *device[LAB_IMAGES];
    cudaStream_t stream;
};

static cudaError_t copy_in(struct run *run, const char *file)
{
    const struct lab_request *request = &run->request;
    cudaError_t status = cudaStreamCreateWithFlags(&run->stream, cudaStreamNonBlocking);
    for (int t = 0; t < LAB_IMAGES && status == cudaSuccess; t++) {
        const size_t bytes = request->image_bytes[t];
        if (bytes == 0)
            continue;
        if ((status = cudaMalloc(&run->memory[t], bytes)) != cudaSuccess)
            return status;
        status =
            cudaMemcpy(run->memory[t], file + request->image[t], bytes, cudaMemcpyHostToDevice);
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
                cudaMemcpyAsync((char *)run->answer + run->request.image[t], run->memory[t],
                                run->request.image_bytes[t], cudaMemcpyDeviceToHost, run->stream);
    return status == cudaSuccess ? cudaStreamSynchronize(run->stream) : status;
}

/* The next call must find nothing that one call left in its outputs and its workspace. */
static cudaError_t poison(struct run *run)
{
    cudaError_t status = cudaSuccess;
    for (int t = 0; t < LAB_IMAGES && status == cudaSuccess; t++)
        if (run->memory[t] && (t == LAB_WORKSPACE || run->request.output[t]))
            status = cudaMemsetAsync(run->device[t], 0xff, run->request.bytes[t], run->stream);
    return status;
}

static cudaError_t launch(struct run *run)
{
    void *const workspace = run->answer->workspace > 0 ? run->device[LAB_WORKSPACE] : NULL;
    return run->problem->run(run->kernel, run->request.sizes, run->device, workspace, run->stream);
}

/* Returns whether the outputs in the answer hold an element that a lap did not write. */
static bool idle(const struct run *run)
{
    for (int t = 0; t < MAX_TENSORS; t++) {
        const size_t bytes = run->request.output[t] ? run->request.bytes[t] : 0;
        const unsigned char *data =
            (const unsigned char *)run->answer + run->request.image[t] + run->request.data[t];
        for (size_t i = 0; i + 4 <= bytes; i += 4)
            if (data[i] + data[i + 1] + data[i + 2] + data[i + 3] == 4 * 0xff)
                return true;
    }
    return false;
}

/* Each lap begins with poisoned outputs, and they are inspected after it. */
static cudaError_t time_laps(struct run *run, bool *wrote)
{
    enum { WARM_UP = 2, MAX_LAPS = 1000 };
    static float lap[MAX_LAPS];
    const size_t laps = (size_t)run->request.laps;
    struct stopwatch watch;
    cudaError_t status = stopwatch_create(&watch, run->stream);
    *wrote = true;
    for (size_t i = 0; i < WARM_UP + laps && status == cudaSuccess && *wrote; i++) {
        if ((status = poison(run)) == cudaSuccess &&
            (status = stopwatch_start(&watch)) == cudaSuccess &&
            (status = launch(run)) == cudaSuccess &&
            (status = stopwatch_stop(&watch, &lap[i < WARM_UP ? 0 : i - WARM_UP])) == cudaSuccess)
            status = copy_out(run);
        *wrote = status == cudaSuccess && !idle(run);
    }
    if (status == cudaSuccess)
        run->answer->milliseconds = stopwatch_median(lap, laps);
    return status;
}

static enum lab_end run_request(struct run *run, const char *file)
{
    struct lab_answer *answer = run->answer;
    int strays = 0;
    bool wrote = true;
    if (backend_architecture() == 0)
        return LAB_NO_DEVICE;
    cudaError_t status = copy_in(run, file);
    munmap((void *)file, run->request.total);
    answer->status = status;
    if (status != cudaSuccess)
        return LAB_NO_DEVICE;
    answer->workspace = problem_workspace(run->problem, run->kernel, run->request.sizes);
    if (answer->workspace > run->request.bytes[LAB_WORKSPACE])
        return LAB_WORKSPACE_TOO_LARGE;

    refusal_clear();
    backend_counters_reset();
    defer_launches();
    for (long long call = 0; call < run->request.calls && status == cudaSuccess; call++)
        if (call == 0 || (status = poison(run)) == cudaSuccess)
            status = launch(run);
    answer->status = status;
    if (status != cudaSuccess)
        return status == cudaErrorNotSupported ? LAB_SKIPPED : LAB_LAUNCHER_ERROR;
    status = run_deferred(run->stream, &strays);
    if (status == cudaSuccess)
        status = copy_out(run); /* on the stream: other streams are not waited for */
    if (status == cudaSuccess)
        status = cudaDeviceSynchronize();
    answer->counted = backend_counters(&answer->counters);
    if (status == cudaSuccess && run->request.laps > 0 && run->request.laps <= 1000)
        status = time_laps(run, &wrote);
    answer->status = status;
    if (status != cudaSuccess)
        return LAB_KERNEL_ERROR;
    return strays > 0 ? LAB_OTHER_STREAM : wrote ? LAB_RAN : LAB_IDLE_LAP;
}

/*
 * workshop.py moves the submission's static initialisers here (on the CPU), so that they run when
 * main() has begun. The linker makes these names when there are any.
 */
typedef void initialiser(void);
extern initialiser *const __start_lab_initialisers[] __attribute__((weak));
extern initialiser *const __stop_lab_initialisers[] __attribute__((weak));

static bool receive(void *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = read(STDIN_FILENO, (char *)to + done, bytes - done);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

/*
 * Nothing of a request is in this process, nor behind any descriptor of it, until it asks for one:
 * the grader sends it when it has got a byte (sandbox.py). So static initialisers see none. The
 * answer goes to what stdout is at first. What kernels print is discarded.
 */
int runner_main(const struct step *step)
{
    struct run run = {0};
    const int output = dup(STDOUT_FILENO);
    if (output < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return 2;
    for (initialiser *const *each = __start_lab_initialisers; each < __stop_lab_initialisers;
         each++)
        (*each)();
    if (write(STDIN_FILENO, "", 1) != 1 || !receive(&run.request, sizeof run.request) ||
        run.request.magic != LAB_MAGIC || run.request.total < sizeof run.request ||
        !(run.kernel = step_kernel(step, run.request.kernel, &run.problem)))
        return 2;
    const size_t total = run.request.total;
    char *file = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    run.answer = calloc(1, total);
    if (file == MAP_FAILED || !run.answer ||
        !receive(file + sizeof run.request, total - sizeof run.request))
        return 2;
    close(STDIN_FILENO);
    if (*run.request.order)
        setenv("SIMT_ORDER", run.request.order, 1);

    run.answer->magic = LAB_MAGIC;
    run.answer->end = run_request(&run, file);
    const bool checked = *backend_report() || run.answer->end == LAB_KERNEL_ERROR;
    snprintf(run.answer->report, sizeof run.answer->report, "%s",
             checked ? backend_report() : refusal());
    for (size_t done = 0; done < total;) {
        const ssize_t wrote = pwrite(output, (char *)run.answer + done, total - done, (off_t)done);
        if (wrote <= 0)
            _exit(2);
        done += (size_t)wrote;
    }
    _exit(0);
}
