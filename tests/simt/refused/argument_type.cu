// says: argument_type.cu:9:19: error: the kernel takes (float*), not (int&)
__global__ void kernel(float *out)
{
    *out = 1;
}

void run(int out)
{
    kernel<<<1, 1>>>(out);
}
