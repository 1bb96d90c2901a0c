// Managed memory: a linked list and a C++ class shared by host and device, a grid-stride loop.
#include <cstdio>
#include <new>

class Managed
{
  public:
    void *operator new(size_t len)
    {
        void *ptr;
        cudaMallocManaged(&ptr, len);
        cudaDeviceSynchronize();
        return ptr;
    }
    void operator delete(void *ptr)
    {
        cudaDeviceSynchronize();
        cudaFree(ptr);
    }
};

class Node : public Managed
{
  public:
    int key;
    Node *next;
    __host__ __device__ int weight() const
    {
        return key * 2;
    }
};

__global__ void walk(const Node *head, int *sum)
{
    int s = 0;
    for (const Node *n = head; n != nullptr; n = n->next)
        s += n->weight();
    *sum = s;
}

__global__ void saxpy(int n, float a, float *x, float *y)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    int stride = blockDim.x * gridDim.x;
    for (int i = index; i < n; i += stride)
        y[i] = a * x[i] + y[i];
}

__device__ __managed__ int total;

__global__ void count()
{
    atomicAdd(&total, 1);
}

int main()
{
    Node *head = nullptr;
    for (int i = 1; i <= 100; i++) {
        Node *node = new Node;
        node->key = i;
        node->next = head;
        head = node;
    }
    int *sum;
    cudaMallocManaged(&sum, sizeof(int));
    walk<<<1, 1>>>(head, sum);
    cudaDeviceSynchronize();
    bool ok = *sum == 10100;
    while (head) {
        Node *next = head->next;
        delete head;
        head = next;
    }

    const int N = 1 << 16;
    float *x, *y;
    cudaMallocManaged(&x, N * sizeof(float));
    cudaMallocManaged(&y, N * sizeof(float));
    for (int i = 0; i < N; i++) {
        x[i] = 1.0f;
        y[i] = 2.0f;
    }
    int blockSize, minGridSize;
    cudaOccupancyMaxPotentialBlockSize(&minGridSize, &blockSize, saxpy, 0, N);
    saxpy<<<(N + blockSize - 1) / blockSize / 4 + 1, blockSize>>>(N, 2.0f, x, y);
    total = 0;
    cudaDeviceSynchronize();
    count<<<10, 32>>>();
    cudaDeviceSynchronize();
    for (int i = 0; i < N; i++)
        ok = ok && y[i] == 4.0f;
    ok = ok && total == 320;
    printf(ok ? "PASSED\n" : "FAILED\n");
    return ok ? 0 : 1;
}
