/* Beginners' mistakes, one for each letter that the program is given. None asks what became of it,
 * except where the letter is a capital. */
#include <cstdio>
#include <cstdlib>

__global__ void set(int *p)
{
    p[threadIdx.x] = 1;
}

__global__ void leave(int *)
{
}

__global__ void __launch_bounds__(64) bounded(int *p)
{
    p[threadIdx.x] = 1;
}

int main(int, char **arguments)
{
    int *device, *host = (int *)malloc(4096);
    cudaMalloc(&device, 4096);
    const char mistake = arguments[1][0];
    switch (mistake) {
    case 'b': /* too large a block */
    case 'B':
    case 'P':
        set<<<1, 2048>>>(device);
        break;
    case 'g': /* no blocks */
        set<<<0, 512>>>(device);
        break;
    case 'd': /* too much dynamic shared memory */
        set<<<1, 32, 65536>>>(device);
        break;
    case 'l': /* more threads than __launch_bounds__ allows */
        bounded<<<1, 128>>>(device);
        break;
    case 'n': /* a null pointer */
    case 'N':
    case 'r':
        set<<<1, 32>>>(nullptr);
        cudaDeviceSynchronize();
        break;
    case 'h': /* a host pointer */
        set<<<1, 32>>>(host);
        break;
    case 'u': /* a host pointer that the kernel does not follow */
        leave<<<1, 32>>>(host);
        break;
    case 'e': /* past the end, by far */
        set<<<1, 32>>>(device + (1 << 20));
        break;
    case 'c': /* a copy the wrong way round */
        cudaMemcpy(host, device, 4096, cudaMemcpyHostToDevice);
        break;
    case 'a': /* and then it gives up */
        set<<<1, 2048>>>(device);
        abort();
    case 's': /* nothing wrong */
        set<<<1, 32>>>(device);
        break;
    }
    if (mistake == 'B' || mistake == 'N')
        puts(cudaGetErrorName(cudaGetLastError()));
    if (mistake == 'P')
        puts(cudaGetErrorName(cudaPeekAtLastError()));
    if (mistake == 'r')
        cudaDeviceReset();
    return 0;
}
