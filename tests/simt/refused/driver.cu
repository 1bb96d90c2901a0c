// says: functions of the CUDA driver are not supported by the CPU backend
#include <cuda.h>

int main()
{
    CUdevice device;
    return 0;
}
