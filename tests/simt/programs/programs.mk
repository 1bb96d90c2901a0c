# These are single-file CUDA programs as others write them, compiled unchanged: by simtcc for the CPU, by nvcc for a GPU.
# tests/simt/test_simt.c runs them.

PROGRAMS := $(patsubst tests/simt/programs/%.cu,%,$(wildcard tests/simt/programs/*.cu))

build/cpu/tests/programs/%: tests/simt/programs/%.cu build/simt/libsimt.a $(SIMTCC)
	@mkdir -p $(@D)
	$(say) SIMT $@
	$(quiet)$(call whole,$(SIMTCC) $<)

build/check/tests/programs/%: tests/simt/programs/%.cu build/simt/libsimt.a $(SIMTCC)
	@mkdir -p $(@D)
	$(say) SIMT $@
	$(quiet)$(call whole,$(SIMTCC) --check $<)

build/gpu/tests/programs/%: tests/simt/programs/%.cu
	@mkdir -p $(@D)
	$(say) NVCC $@
	$(quiet)$(call whole,$(NVCC) -std=c++17 -O2 --extended-lambda $(call gencode,$(firstword $(ARCH))) $<)

build/cpu/tests/test_simt: | $(PROGRAMS:%=build/cpu/tests/programs/%)
build/check/tests/test_simt: | $(PROGRAMS:%=build/check/tests/programs/%)
build/gpu/tests/test_simt: | $(PROGRAMS:%=build/gpu/tests/programs/%)
