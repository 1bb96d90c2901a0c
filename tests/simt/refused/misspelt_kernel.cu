// says: misspelt_kernel.cu:9:5: error:
__global__ void kernel(int *out)
{
    *out = 1;
}

void run(int *out)
{
    kernl<<<1, 1>>>(out);
}
