// says: missing_brace.cu:4:20: error: expected
__global__ void kernel(int *out)
{
    out[0] = 1 + 1;
