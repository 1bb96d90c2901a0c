#error "CUB is not supported by the CPU backend (simt)"
