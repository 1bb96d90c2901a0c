#error "<cusparse.h> is not supported by the CPU backend (simt)"
