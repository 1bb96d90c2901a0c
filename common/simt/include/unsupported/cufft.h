#error "<cufft.h> is not supported by the CPU backend (simt)"
