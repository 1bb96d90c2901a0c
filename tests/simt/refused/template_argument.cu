// says: template_argument.cu:10:16: error: no matching function for call to
template <int N>
__global__ void kernel(int *out)
{
    *out = N;
}

void run(int *out)
{
    kernel<4.5><<<1, 1>>>(out);
}
