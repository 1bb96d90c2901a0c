// says: sizes of clusters at the kernel instead of the launch are not supported by the CPU backend
__global__ void __cluster_dims__(2, 1, 1) kernel(int *data)
{
    *data = 1;
}

int main()
{
    kernel<<<2, 1>>>(nullptr);
    return 0;
}
