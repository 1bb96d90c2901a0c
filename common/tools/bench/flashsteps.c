#include "flashsteps.h"

#include "01_naive_matmul/01_step.h"
#include "02_tiled_matmul/02_step.h"
#include "03_online_softmax/03_step.h"
#include "04_flash_v1/04_step.h"
#include "05_flash_v2/05_step.h"
#include "06_causal_half/06_step.h"

const struct kernel *flashsteps_kernel(int step, int index)
{
    static const struct {
        const struct problem *problem;
        const void *table;
    } steps[] = {
        {&matmul_problem, naive_matmul_kernels},    {&matmul_problem, tiled_matmul_kernels},
        {&softmax_problem, online_softmax_kernels}, {&attention_problem, flash_v1_kernels},
        {&attention_problem, flash_v2_kernels},     {&attention_problem, causal_half_kernels},
    };
    if (step < 1 || step > (int)(sizeof steps / sizeof *steps))
        return NULL;
    for (int i = 0; i <= index; i++) {
        const struct kernel *kernel =
            problem_kernel(steps[step - 1].problem, steps[step - 1].table, (size_t)i);
        if (kernel->name == NULL || i == index)
            return kernel->name ? kernel : NULL;
    }
    return NULL;
}

size_t flashsteps_workspace(const struct attention_kernel *row, const struct attention *call)
{
    return row->workspace ? row->workspace(call) : 0;
}
