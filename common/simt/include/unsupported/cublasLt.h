#error "<cublasLt.h> is not supported by the CPU backend (simt)"
