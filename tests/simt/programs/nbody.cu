// Gravitation of n bodies: float4 positions, tiles in shared memory, two buffers that swap.
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#define SOFTENING 1e-2f

__device__ float3 bodyBodyInteraction(float4 bi, float4 bj, float3 ai)
{
    float3 r;
    r.x = bj.x - bi.x;
    r.y = bj.y - bi.y;
    r.z = bj.z - bi.z;
    float distSqr = r.x * r.x + r.y * r.y + r.z * r.z + SOFTENING;
    float invDist = rsqrtf(distSqr);
    float s = bj.w * invDist * invDist * invDist;
    ai.x += r.x * s;
    ai.y += r.y * s;
    ai.z += r.z * s;
    return ai;
}

__global__ void step(const float4 *oldPos, float4 *newPos, float4 *vel, int n, float dt)
{
    extern __shared__ float4 shPosition[];
    int gtid = blockIdx.x * blockDim.x + threadIdx.x;
    float4 myPosition = oldPos[gtid];
    float3 acc = {0.0f, 0.0f, 0.0f};
    for (int i = 0, tile = 0; i < n; i += blockDim.x, tile++) {
        shPosition[threadIdx.x] = oldPos[tile * blockDim.x + threadIdx.x];
        __syncthreads();
#pragma unroll 4
        for (int j = 0; j < blockDim.x; j++)
            acc = bodyBodyInteraction(myPosition, shPosition[j], acc);
        __syncthreads();
    }
    float4 v = vel[gtid];
    v.x += acc.x * dt;
    v.y += acc.y * dt;
    v.z += acc.z * dt;
    vel[gtid] = v;
    newPos[gtid] = make_float4(myPosition.x + v.x * dt, myPosition.y + v.y * dt,
                               myPosition.z + v.z * dt, myPosition.w);
}

int main()
{
    const int n = 256, threads = 64, steps = 3;
    std::vector<float4> pos(n), vel(n), ref(n), refVel(n);
    for (int i = 0; i < n; i++) {
        pos[i] = make_float4(sinf(i), cosf(3 * i), sinf(7 * i), 1.0f / n);
        vel[i] = make_float4(0, 0, 0, 0);
    }
    ref = pos;
    refVel = vel;
    float4 *d_pos[2], *d_vel;
    for (int i = 0; i < 2; i++)
        cudaMalloc(&d_pos[i], n * sizeof(float4));
    cudaMalloc(&d_vel, n * sizeof(float4));
    cudaMemcpy(d_pos[0], pos.data(), n * sizeof(float4), cudaMemcpyHostToDevice);
    cudaMemcpy(d_vel, vel.data(), n * sizeof(float4), cudaMemcpyHostToDevice);
    for (int s = 0; s < steps; s++) {
        step<<<n / threads, threads, threads * sizeof(float4)>>>(d_pos[0], d_pos[1], d_vel, n,
                                                                 0.01f);
        std::swap(d_pos[0], d_pos[1]);
    }
    if (cudaMemcpy(pos.data(), d_pos[0], n * sizeof(float4), cudaMemcpyDeviceToHost) != cudaSuccess)
        return 2;
    for (int s = 0; s < steps; s++) {
        std::vector<float4> next = ref;
        for (int i = 0; i < n; i++) {
            double a[3] = {0, 0, 0};
            for (int j = 0; j < n; j++) {
                double x = ref[j].x - ref[i].x, y = ref[j].y - ref[i].y, z = ref[j].z - ref[i].z;
                double inv = 1.0 / sqrt(x * x + y * y + z * z + SOFTENING),
                       f = ref[j].w * inv * inv * inv;
                a[0] += x * f;
                a[1] += y * f;
                a[2] += z * f;
            }
            refVel[i].x += (float)a[0] * 0.01f;
            refVel[i].y += (float)a[1] * 0.01f;
            refVel[i].z += (float)a[2] * 0.01f;
            next[i].x += refVel[i].x * 0.01f;
            next[i].y += refVel[i].y * 0.01f;
            next[i].z += refVel[i].z * 0.01f;
        }
        ref = next;
    }
    float worst = 0;
    for (int i = 0; i < n; i++)
        worst = fmaxf(worst, fmaxf(fabsf(pos[i].x - ref[i].x), fabsf(pos[i].y - ref[i].y)));
    printf("worst difference %g\n", worst);
    return worst < 1e-4f ? 0 : 1;
}
