# These write one kernel as one self-contained .cu file: one.py says what is in it.

ONE := $(PYTHON) common/tools/one/one.py
ALL_KERNELS := $(foreach step,$(STEPS),$(call kernels_of,$(step)))
TAKES_KERNEL += one check-one
ifneq ($(if $(filter one,$(MAKECMDGOALS)),$(words $(KERNEL)),1),1)
  $(error which one? make one KERNEL=name, of these:$(call kernel_lines,$(STEPS)))
endif

$(call as_data,one,OUT)

.PHONY: one
one: packages-python ## learn: Write a kernel as one .cu file with a main: make one KERNEL=name OUT=name.cu
	@$(ONE) $(KERNEL) "$$ARG_OUT"

# The file itself tells its reader these nvcc options.
nvcc_options = $$(sed -n 's/.* nvcc \(.*\) THIS.cu -o .*/\1/p' $(1))

# A file that stays as it is keeps its time.
build/one/%.cu: build/facts.json FORCE
	@mkdir -p $(@D)
	@$(ONE) $* $@

build/one/%.cpu: build/one/%.cu $(runtime_cpu) $(SIMTCC)
	@$(call whole,$(SIMTCC) -O0 -Wall -Werror $<,$(part) &&)

# Exit status 3 means that this device is too old for the kernel.
build/one/%.gpu: build/one/%.cu
	@$(call whole,$(NVCC) $(call nvcc_options,$<) $<,{ $(part) || [ $$? -eq 3 ]; } &&)

build/one/%.ptx: build/one/%.cu
	@$(call whole,$(NVCC) $(call nvcc_options,$<) -Werror all-warnings -diag-suppress 177 -ptx $<)

ONE_CHECKS := cpu $(if $(NVCC),$(if $(filter gpu,$(BACKEND)),gpu,ptx))
.PHONY: check-one
check-one: packages-python $(foreach kernel,$(or $(KERNEL),$(ALL_KERNELS)),$(ONE_CHECKS:%=build/one/$(kernel).%)) ## check: Make all files of make one; compile them with simtcc and nvcc, run them
	@echo '$(words $(or $(KERNEL),$(ALL_KERNELS))) kernels as single files: compiled for $(ONE_CHECKS)'
