// says: several devices are not supported by the CPU backend
int main()
{
    int can = 0;
    cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrAccessSupported, 0, 1);
    return can;
}
