// says: wrong_arguments.cu:9:11: error: too few arguments to function
__global__ void kernel(int *out, int value)
{
    *out = value;
}

void run(int *out)
{
    kernel<<<1, 1>>>(out);
}
