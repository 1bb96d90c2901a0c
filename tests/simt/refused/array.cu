// says: CUDA arrays (textures and surfaces) are not supported by the CPU backend
int main()
{
    cudaArray *pixels;
    return 0;
}
