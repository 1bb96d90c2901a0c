#include "flashsteps.h"

#include "01_naive_matmul/01_step.h"
#include "02_tiled_matmul/02_step.h"
#include "03_online_softmax/03_step.h"
#include "04_flash_v1/04_step.h"
#include "05_flash_v2/05_step.h"
#include "06_causal_half/06_step.h"
#include "refusal.h"

#include <stdio.h>

static const void *const tables[] = {naive_matmul_kernels,   tiled_matmul_kernels,
                                     online_softmax_kernels, flash_v1_kernels,
                                     flash_v2_kernels,       causal_half_kernels};
enum { STEPS = sizeof tables / sizeof *tables, SOFTMAX_STEP = 3 };

static const struct problem *problem_of(int step)
{
    return step < SOFTMAX_STEP    ? &matmul_problem
           : step == SOFTMAX_STEP ? &softmax_problem
                                  : &attention_problem;
}

/* Row `index` of a step's table; null past the end and for a step that is not there. */
static const struct kernel *row(int step, int index)
{
    if (step < 1 || step > STEPS || index < 0)
        return NULL;
    for (int i = 0; i <= index; i++) {
        const struct kernel *kernel = problem_kernel(problem_of(step), tables[step - 1], (size_t)i);
        if (!kernel->name)
            return NULL;
        if (i == index)
            return kernel;
    }
    return NULL;
}

/* The same, of the problem that a call is for; refused where there is none. */
static const struct kernel *row_for(const struct problem *problem, int step, int index)
{
    const struct kernel *kernel = row(step, index);
    if (kernel && problem_of(step) == problem)
        return kernel;
    refuse(cudaErrorInvalidValue, "step %d has no kernel %d for %s", step, index, problem->name);
    return NULL;
}

const char *flashsteps_kernel(int step, int index)
{
    const struct kernel *kernel = row(step, index);
    return kernel ? kernel->name : NULL;
}

cudaError_t flashsteps_matmul(int step, int index, const struct flashsteps_matmul *call)
{
    const struct kernel *kernel = row_for(&matmul_problem, step, index);
    if (!kernel)
        return cudaErrorInvalidValue;
    return matmul_run((const struct matmul_kernel *)kernel, call->A, call->B, call->C, call->M,
                      call->N, call->K, call->stream);
}

cudaError_t flashsteps_softmax(int step, int index, const struct flashsteps_softmax *call)
{
    const struct kernel *kernel = row_for(&softmax_problem, step, index);
    if (!kernel)
        return cudaErrorInvalidValue;
    return softmax_run((const struct softmax_kernel *)kernel, call->input, call->output, call->rows,
                       call->cols, call->stream);
}

cudaError_t flashsteps_attention(int step, int index, const struct attention *call)
{
    const struct kernel *kernel = row_for(&attention_problem, step, index);
    return kernel ? attention_run((const struct attention_kernel *)kernel, call)
                  : cudaErrorInvalidValue;
}

size_t flashsteps_workspace(int step, int index, const struct attention *call)
{
    const struct attention_kernel *kernel =
        (const struct attention_kernel *)row_for(&attention_problem, step, index);
    return kernel && kernel->workspace ? kernel->workspace(call) : 0;
}

const char *flashsteps_refusal(void)
{
    static _Thread_local char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", refusal());
    refusal_clear();
    return sentence;
}
