#error "<nccl.h> is not supported by the CPU backend (simt)"
