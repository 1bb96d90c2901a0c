#error "Thrust is not supported by the CPU backend (simt)"
