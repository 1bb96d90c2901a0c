// says: set is a __global__ function, which is launched: set<<<grid, block>>>(...)
template <int N>
__global__ void tile(int *p)
{
    p[threadIdx.x] = N;
}

__global__ void set(int *p)
{
    p[threadIdx.x] = 1;
}

int main()
{
    int *p = nullptr;
    set(p);
    tile<16>(p); /* is said, too */
    return 0;
}
