// says: L2 access policies are not supported by the CPU backend
int main()
{
    cudaAccessPolicyWindow window = {};
    window.num_bytes = 1 << 20;
}
