// says: textures are not supported by the CPU backend
__global__ void fetch(cudaTextureObject_t texture, float *out)
{
    out[threadIdx.x] = tex1Dfetch<float>(texture, threadIdx.x);
}
