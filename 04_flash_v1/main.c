#include "04_step.h"
#include "harness/step.h"

int main(int argc, char **argv)
{
    return step_main(argc, argv, "04_flash_v1", &attention_problem, flash_v1_kernels);
}
