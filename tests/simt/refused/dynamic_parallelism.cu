// says: dynamic parallelism) are not supported by the CPU backend
__global__ void child(int *out)
{
    *out = 1;
}

__global__ void parent(int *out)
{
    child<<<1, 1>>>(out);
}
