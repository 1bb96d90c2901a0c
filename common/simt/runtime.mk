# For the top Makefile: the runtime library. simtcc knows how to make it, and locks others out meanwhile; it leaves a
# library alone that is up to date.

build/simt/libsimt.a: FORCE
	@common/simt/simtcc --runtime
