// says: plain_call.cu:9:5: error: static assertion failed: a __global__ function call must be
__global__ void fill(int *data)
{
    *data = 1;
}

int main()
{
    fill(0);
}
