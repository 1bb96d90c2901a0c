// The first CUDA program: C = A + B.
#include <iostream>
#include <vector>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t err = (call);                                                                  \
        if (err != cudaSuccess) {                                                                  \
            std::cerr << #call << ": " << cudaGetErrorString(err) << std::endl;                    \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

__global__ void vectorAdd(const float *a, const float *b, float *c, int numElements)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < numElements)
        c[i] = a[i] + b[i];
}

int main()
{
    const int n = 50000;
    const size_t size = n * sizeof(float);
    std::vector<float> a(n), b(n), c(n);
    for (int i = 0; i < n; i++) {
        a[i] = rand() / (float)RAND_MAX;
        b[i] = rand() / (float)RAND_MAX;
    }
    float *d_a, *d_b, *d_c;
    CHECK(cudaMalloc((void **)&d_a, size));
    CHECK(cudaMalloc(&d_b, size));
    CHECK(cudaMalloc(&d_c, size));
    CHECK(cudaMemcpy(d_a, a.data(), size, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, b.data(), size, cudaMemcpyHostToDevice));
    int threadsPerBlock = 256;
    int blocksPerGrid = (n + threadsPerBlock - 1) / threadsPerBlock;
    vectorAdd<<<blocksPerGrid, threadsPerBlock>>>(d_a, d_b, d_c, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c.data(), d_c, size, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        if (c[i] != a[i] + b[i]) {
            std::cerr << "element " << i << " is wrong" << std::endl;
            return 1;
        }
    }
    cudaFree(d_a);
    cudaFree(d_b);
    cudaFree(d_c);
    std::cout << "PASSED" << std::endl;
    return 0;
}
