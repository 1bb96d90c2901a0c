/* Only a GPU can show this: every kernel of every step works in a CUDA graph. */
#include "harness/ladder.h"
#include "01_naive_matmul/01_step.h"
#include "02_tiled_matmul/02_step.h"
#include "03_online_softmax/03_step.h"
#include "04_flash_v1/04_step.h"
#include "05_flash_v2/05_step.h"
#include "06_causal_half/06_step.h"
#include "attention_cases.h"
#include "tests/support/harness.h"
#include "tests/support/ladder.h"

static const struct attention_kernel *causal_half_kernels(void)
{
    return step_rows(&step_06, &attention_problem);
}

static const struct attention_kernel *flash_v2_kernels(void)
{
    return step_rows(&step_05, &attention_problem);
}

static const struct attention_kernel *flash_v1_kernels(void)
{
    return step_rows(&step_04, &attention_problem);
}

static const struct softmax_kernel *online_softmax_kernels(void)
{
    return step_rows(&step_03, &softmax_problem);
}

static const struct matmul_kernel *tiled_matmul_kernels(void)
{
    return step_rows(&step_02, &matmul_problem);
}

static const struct matmul_kernel *naive_matmul_kernels(void)
{
    return step_rows(&step_01, &matmul_problem);
}

/*
 * Captures one launch of each kernel and replays it three times, on outputs that are poisoned in
 * between. A launch on any other stream than the captured one ends the capture with an error.
 */
static void check_graphs(const struct problem *problem, const void *table, const long long *sizes)
{
    const struct kernel *kernel;
    struct trial trial = ladder_trial(problem, sizes, INPUTS_NORMAL, 1, 0);
    for (size_t index = 0; (kernel = problem_kernel(problem, table, index))->name; index++) {
        struct device_buffer workspace;
        cudaGraph_t graph = NULL;
        cudaGraphExec_t replay = NULL;
        if (!ladder_runs(kernel))
            continue;
        const struct verdict first = trial_run(&trial, kernel); /* this loads the module */
        cr_assert(first.status == VERDICT_PASS, "%s: %s", kernel->name, first.reason);
        cr_assert(device_buffer_create(&workspace, problem_workspace(problem, kernel, sizes), 0) ==
                  cudaSuccess);
        cr_assert(cudaStreamBeginCapture(trial.stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
        const cudaError_t launched = trial_launch(&trial, kernel, &workspace);
        const cudaError_t captured = cudaStreamEndCapture(trial.stream, &graph);
        cr_assert(launched == cudaSuccess && captured == cudaSuccess, "%s: %s, %s", kernel->name,
                  cudaGetErrorName(launched), cudaGetErrorName(captured));
        cr_assert(cudaGraphInstantiateWithFlags(&replay, graph, 0) == cudaSuccess);
        for (int again = 0; again < 3; again++) {
            cr_assert(trial_poison(&trial, NULL) == cudaSuccess);
            cr_assert(cudaGraphLaunch(replay, trial.stream) == cudaSuccess);
            cr_assert(cudaStreamSynchronize(trial.stream) == cudaSuccess);
            struct comparison comparison = {.bound = problem->bound(sizes)};
            for (int t = trial.input_count; t < trial.tensor_count; t++)
                cr_assert(device_buffer_download(&trial.device[t], trial.host[t]) == cudaSuccess);
            trial_compare(&trial, &comparison);
            cr_expect(!comparison.wrong, "%s, replay %d: %s", kernel->name, again,
                      comparison.first);
        }
        cudaGraphExecDestroy(replay);
        cudaGraphDestroy(graph);
        device_buffer_destroy(&workspace);
    }
    trial_destroy(&trial);
}

TEST(graphs, naive_matmul)
{
    check_graphs(&matmul_problem, naive_matmul_kernels(), MATMUL_SIZES(33, 65, 17));
}

TEST(graphs, tiled_matmul)
{
    check_graphs(&matmul_problem, tiled_matmul_kernels(), MATMUL_SIZES(130, 261, 300));
}

TEST(graphs, online_softmax)
{
    check_graphs(&softmax_problem, online_softmax_kernels(), SOFTMAX_SIZES(3, 70000));
}

TEST(graphs, flash_v1)
{
    check_graphs(&attention_problem, flash_v1_kernels(),
                 SIZES(((struct size){1, 4, 2, 130, 161, 40})));
}

TEST(graphs, flash_v2)
{
    check_graphs(&attention_problem, flash_v2_kernels(),
                 SIZES(((struct size){1, 4, 2, 3, 1300, 40})));
}

TEST(graphs, causal_half)
{
    check_graphs(&attention_problem, causal_half_kernels(),
                 SIZES(((struct size){1, 40, 20, 300, 300, 64, true, TENSOR_F16})));
}
