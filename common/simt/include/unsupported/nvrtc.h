#error "<nvrtc.h> is not supported by the CPU backend (simt)"
