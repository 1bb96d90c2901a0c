#include "01_step.h"
#include "harness/step.h"

int main(int argc, char **argv)
{
    return step_main(argc, argv, "01_naive_matmul", &matmul_problem, naive_matmul_kernels);
}
