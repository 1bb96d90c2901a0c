#error "<cudnn.h> is not supported by the CPU backend (simt)"
