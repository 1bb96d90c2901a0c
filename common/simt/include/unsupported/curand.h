#error "<curand.h> is not supported by the CPU backend (simt)"
