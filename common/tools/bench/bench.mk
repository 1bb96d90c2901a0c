# Benchmarks: every kernel beside the libraries, on a GPU. Included by the Makefile.
#
#   build/gpu/bench/NN                the step's ladder, cuBLAS or cuDNN, and a copy
#   build/gpu/libflashsteps.so        all kernels behind a C ABI, for torch_peers.py
#   docs/results/ladder.csv           every rung at its lesson's size, all from one run
#   docs/results/NN_step.csv          what the first measured; NN_step_torch.csv what the second did
#   docs/results/NN_step_*.svg        plots of both; `make pictures` draws them, too

BENCH_STEPS := $(foreach number,$(STEP_NUMBERS),$(if $(wildcard common/tools/bench/bench_$(number).c),$(number)))
TAKES_STEP += bench profile
# Compilers search these folders by themselves, and the toolkit's.
CUDNN_HEADER := $(firstword $(wildcard $(CUDA_HOME)/include/cudnn.h /usr/include/cudnn.h /usr/include/*-linux-gnu/cudnn.h))
CUDNN_PEER := common/tools/bench/$(if $(CUDNN_HEADER),peer_cudnn.c,peer_no_cudnn.c)

peer_of_01 := common/tools/bench/peer_cublas.c
peer_of_02 := common/tools/bench/peer_cublas.c
peer_of_03 := $(CUDNN_PEER)
peer_libraries_01 := -lcublas
peer_libraries_02 := -lcublas
peer_libraries_03 := $(if $(CUDNN_HEADER),-lcudnn)
bench_shared := $(addprefix common/tools/bench/,bench.c sensors.c device_tools.cu)

# $(1) is a step's number.
define bench_rules
build/gpu/bench/$(1): $$(call objects,gpu,common/tools/bench/bench_$(1).c $$(bench_shared) $$(peer_of_$(1)) $$(call step_files,$$(call step_named,$(1)))) build/gpu/libcommon.a
	@mkdir -p $$(@D)
	$$(say) LINK $$@
	$$(quiet)$$(call whole,$$(link_gpu) $$^ -L$$(CUDA_HOME)/lib64 -Xlinker -rpath$$(comma)$$(CUDA_HOME)/lib64 $$(peer_libraries_$(1)) -ldl -lm)
endef

$(foreach number,$(BENCH_STEPS),$(eval $(call bench_rules,$(number))))

# These are the host's sources once more, position-independent.
build/gpu/pic/%.c.o: %.c build/gpu/flags
	@mkdir -p $(@D)
	$(say) C $@
	$(quiet)$(call compiled,$(C_COMPILE) -fPIC $(include_gpu) -c $<)

build/gpu/pic/common/tools/bench/flashsteps.c.o: private CFLAGS += $(EACH_STEP)
build/gpu/libflashsteps.so: $(patsubst %,build/gpu/pic/%.o,$(common_gpu) common/tools/bench/flashsteps.c $(wildcard 0?_*/*_step.c)) $(foreach step,$(STEPS),$(call objects,gpu,$(call kernel_files,$(step))))
	$(say) LINK $@
	$(quiet)$(call whole,$(link_gpu) -shared $^ -lm)

# This says why nothing can be measured here; it is empty where there is a GPU.
BENCH_REFUSAL := $(if $(filter gpu,$(BACKEND)),$(if $(DEVICE_CAPABILITY),,nvidia-smi shows no device),$(BACKEND_REASON))

# Steps run one after the other, whatever -j says: two kernels at a time would measure each other.
.PHONY: bench
bench: ## gpu: Time every kernel beside its peers; write docs/results, the lessons' tables
	@[ -z '$(BENCH_REFUSAL)' ] || { echo 'make bench needs a GPU: $(BENCH_REFUSAL)' >&2; exit 3; }
	@for number in $(filter $(CHOSEN_NUMBERS),$(BENCH_STEPS)); do $(MAKE) --no-print-directory bench-$$number || exit; done

# The lessons quote docs/results, which come from an H200. Another device's figures go elsewhere, for instance
# RESULTS=build/results.
RESULTS ?= docs/results
bench-%: FORCE
	@$(if $(filter $*,$(BENCH_STEPS)),,echo 'There is no benchmark $*; there are: $(BENCH_STEPS)' >&2; exit 2;) \
	    [ -z '$(BENCH_REFUSAL)' ] || { echo 'make bench needs a GPU: $(BENCH_REFUSAL)' >&2; exit 3; }
	@$(MAKE) --no-print-directory -s build/gpu/bench/$* build/gpu/libflashsteps.so
	@mkdir -p $(RESULTS)
	build/gpu/bench/$* $(RESULTS)/$(call step_named,$*).csv
	$(PYTHON) common/tools/bench/torch_peers.py build/gpu/libflashsteps.so $* $(RESULTS)/$(call step_named,$*)_torch.csv
ifeq ($(RESULTS),docs/results)
	$(PYTHON) docs/make/report.py $(call step_named,$*)
	@$(MAKE) --no-print-directory -s build/check/$(call step_named,$*)
	$(PYTHON) docs/make/plots.py make $(call step_named,$*)
endif

# This times every rung of every step in one run, at the size that its lesson uses.
.PHONY: bench-ladder
bench-ladder: ## gpu: Time every rung at its lesson's size; write docs/results/ladder.csv
	@[ -z '$(BENCH_REFUSAL)' ] || { echo 'make bench-ladder needs a GPU: $(BENCH_REFUSAL)' >&2; exit 3; }
	@$(MAKE) --no-print-directory -s $(BENCH_STEPS:%=build/gpu/bench/%)
	@mkdir -p docs/results && rm -f docs/results/ladder.csv
	@for number in $(BENCH_STEPS); do build/gpu/bench/$$number docs/results/ladder.csv lesson || exit; done

.PHONY: profile
profile: ## gpu: Ask ncu what every kernel keeps busy; write results and the lessons' tables
	@for number in $(CHOSEN_NUMBERS); do $(MAKE) --no-print-directory profile-$$number || exit; done

profile-%: FORCE
	@$(if $(filter $*,$(STEP_NUMBERS)),,echo 'There is no step $*; there are: $(STEP_NUMBERS)' >&2; exit 2;) \
	    [ -z '$(BENCH_REFUSAL)' ] || { echo 'make profile needs a GPU: $(BENCH_REFUSAL)' >&2; exit 3; }
	@command -v ncu >/dev/null || { echo 'make profile needs ncu, which is in the CUDA Toolkit (Nsight Compute)' >&2; exit 3; }
	@$(MAKE) --no-print-directory -s build/gpu/$(call step_named,$*)
	$(PYTHON) common/tools/bench/ncu_profile.py $(call step_named,$*)
