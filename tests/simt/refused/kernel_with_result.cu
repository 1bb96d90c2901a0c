// says: a kernel returns void
__global__ int kernel(int *out)
{
    return *out;
}

void run(int *out)
{
    kernel<<<1, 1>>>(out);
}
