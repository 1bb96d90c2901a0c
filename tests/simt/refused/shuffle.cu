// says: shuffles and votes without a mask (__shfl_down_sync has one) are not supported
__global__ void sum(int *data)
{
    data[threadIdx.x] += __shfl_down(data[threadIdx.x], 1);
}

int main()
{
    sum<<<1, 32>>>(nullptr);
    return 0;
}
