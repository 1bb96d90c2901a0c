# For the top Makefile: the runtime library of either build. simtcc knows how to make it, and lets nobody else in
# meanwhile; it leaves a library alone that is up to date.

build/cpu/simt/libsimt.a: FORCE
	@common/simt/simtcc --runtime

build/check/simt/libsimt.a: FORCE
	@common/simt/simtcc --runtime --check
