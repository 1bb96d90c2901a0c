// says: inline PTX assembly is not supported by the CPU backend
__global__ void lane(unsigned *out)
{
    unsigned id;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(id));
    out[threadIdx.x] = id;
}
