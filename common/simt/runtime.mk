# The top Makefile includes this for the runtime library. simtcc knows how to make the library, and locks others out
# meanwhile. It leaves a library alone that is up to date.

build/simt/libsimt.a: FORCE
	@common/simt/simtcc --runtime
