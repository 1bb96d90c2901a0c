// says: CUDA graphs are not supported by the CPU backend
int main()
{
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, 0);
}
