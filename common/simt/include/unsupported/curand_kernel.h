#error "<curand_kernel.h> is not supported by the CPU backend (simt)"
