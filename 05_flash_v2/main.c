#include "05_step.h"
#include "harness/step.h"

int main(int argc, char **argv)
{
    return step_main(argc, argv, "05_flash_v2", &attention_problem, flash_v2_kernels);
}
