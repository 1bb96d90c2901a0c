#include "03_step.h"
#include "harness/step.h"

int main(int argc, char **argv)
{
    return step_main(argc, argv, &step_03);
}
