// says: candidate expects 2 arguments, 1 provided
__global__ void kernel(int *out, int value)
{
    *out = value;
}

void run(int *out)
{
    kernel<<<1, 1>>>(out);
}
