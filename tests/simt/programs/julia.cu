// A Julia set with <cuComplex.h>, in single and double precision, against std::complex.
#include <complex>
#include <cstdio>
#include <cuComplex.h>
#include <vector>

#define WIDTH 70
#define HEIGHT 50
#define STEPS 60

__global__ void julia(cuFloatComplex c, int *steps)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= WIDTH || y >= HEIGHT)
        return;
    cuFloatComplex z = make_cuComplex(3.0f * x / WIDTH - 1.5f, 2.0f * y / HEIGHT - 1.0f);
    int step = 0;
    while (step < STEPS && cuCabsf(z) <= 2.0f) {
        z = cuCaddf(cuCmulf(z, z), c);
        step++;
    }
    steps[y * WIDTH + x] = step;
}

__global__ void quotients(const cuDoubleComplex *a, const cuDoubleComplex *b, cuDoubleComplex *q)
{
    const cuDoubleComplex x = a[threadIdx.x], y = cuConj(b[threadIdx.x]);
    q[threadIdx.x] = cuCsub(cuCdiv(x, y), make_cuDoubleComplex(cuCreal(x), cuCimag(y)));
}

int main()
{
    int wrong = 0;
    std::vector<int> steps(WIDTH * HEIGHT);
    int *device;
    cudaMalloc(&device, steps.size() * sizeof(int));
    const dim3 block(16, 8), grid((WIDTH + 15) / 16, (HEIGHT + 7) / 8);
    julia<<<grid, block>>>(make_cuFloatComplex(-0.8f, 0.156f), device);
    cudaMemcpy(steps.data(), device, steps.size() * sizeof(int), cudaMemcpyDeviceToHost);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            std::complex<float> z(3.0f * x / WIDTH - 1.5f, 2.0f * y / HEIGHT - 1.0f);
            int step = 0;
            while (step < STEPS && std::abs(z) <= 2.0f) {
                z = z * z + std::complex<float>(-0.8f, 0.156f);
                step++;
            }
            // Where a step more or less depends on the last bit, a GPU may differ.
            wrong += steps[y * WIDTH + x] != step;
        }
    wrong = wrong > WIDTH * HEIGHT / 100;

    cuDoubleComplex *a, *b, *q;
    cudaMallocManaged(&a, 32 * sizeof *a);
    cudaMallocManaged(&b, 32 * sizeof *b);
    cudaMallocManaged(&q, 32 * sizeof *q);
    for (int i = 0; i < 32; i++) {
        a[i] = make_cuDoubleComplex(i - 7, 3 * i % 5);
        b[i] = make_cuDoubleComplex(1e200 * (i % 3 + 1), 1e200 * (i % 7));
    }
    quotients<<<1, 32>>>(a, b, q);
    wrong += cudaDeviceSynchronize() != cudaSuccess;
    for (int i = 0; i < 32; i++) {
        const std::complex<double> x(a[i].x, a[i].y), y(b[i].x / 1e200, -b[i].y / 1e200);
        const std::complex<double> expected =
            x / y * 1e-200 - std::complex<double>(a[i].x, -b[i].y);
        wrong +=
            std::abs(std::complex<double>(q[i].x, q[i].y) - expected) > 1e-12 * std::abs(expected);
    }
    printf(wrong ? "FAILED\n" : "PASSED\n");
    return wrong != 0;
}
