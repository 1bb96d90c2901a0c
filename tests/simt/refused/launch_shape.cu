// says: launch_shape.cu:9:22: error: <<<int>>> is no launch; it takes <<<grid, block
__global__ void kernel(int *out)
{
    *out = 1;
}

void run(int *out)
{
    kernel<<<1>>>(out);
}
