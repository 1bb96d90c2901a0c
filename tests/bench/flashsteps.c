#include "flashsteps.h"

#include "01_naive_matmul/01_step.h"
#include "02_tiled_matmul/02_step.h"
#include "03_online_softmax/03_step.h"
#include "04_flash_v1/04_step.h"
#include "05_flash_v2/05_step.h"
#include "06_causal_half/06_step.h"
#include "refusal.h"

#include <stdio.h>

/* Whether index is that of a row: the tables end with one whose name is null, and that may be asked
 * for. */
#define ROWS(table) ((int)(sizeof(table) / sizeof(table)[0]))

const char *flashsteps_kernel(int step, int index)
{
    const struct {
        const struct problem *problem;
        const void *table;
        int rows;
    } steps[] = {
        {&matmul_problem, naive_matmul_kernels, ROWS(naive_matmul_kernels)},
        {&matmul_problem, tiled_matmul_kernels, ROWS(tiled_matmul_kernels)},
        {&softmax_problem, online_softmax_kernels, ROWS(online_softmax_kernels)},
        {&attention_problem, flash_v1_kernels, ROWS(flash_v1_kernels)},
        {&attention_problem, flash_v2_kernels, ROWS(flash_v2_kernels)},
        {&attention_half_problem, causal_half_kernels, ROWS(causal_half_kernels)},
    };
    if (step < 1 || step > ROWS(steps) || index < 0 || index >= steps[step - 1].rows)
        return NULL;
    return steps[step - 1].problem->kernel(steps[step - 1].table, (size_t)index).name;
}

size_t flashsteps_workspace(int step, int index, const struct attention_shape *shape)
{
    attention_workspace_fn *asks = NULL;
    if (step < 4 || !flashsteps_kernel(step, index))
        return 0;
    if (step == 4)
        asks = flash_v1_kernels[index].workspace;
    else if (step == 5)
        asks = flash_v2_kernels[index].workspace;
    else
        asks = causal_half_kernels[index].workspace;
    return asks ? asks(shape) : 0;
}

const char *flashsteps_refusal(void)
{
    static _Thread_local char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", refusal());
    refusal_clear();
    return sentence;
}
