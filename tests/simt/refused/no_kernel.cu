// says: no_kernel.cu:9:11: error: static assertion failed: only a __global__ function
__device__ void function(int *out)
{
    *out = 1;
}

void run(int *out)
{
    function<<<1, 1>>>(out);
}
