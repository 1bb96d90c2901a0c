// says: textures are not supported by the CPU backend
texture<float, 2> image;

__global__ void fetch(float *out, cudaTextureObject_t object)
{
    out[threadIdx.x] = tex2D(image, threadIdx.x, 0) + tex2D<float>(object, 0, threadIdx.x);
}

void bind(cudaArray *array, cudaChannelFormatDesc format)
{
    image.filterMode = cudaFilterModeLinear;
    cudaBindTextureToArray(image, array, format);
}
