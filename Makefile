# Every target of the project. `make help` lists them; README.md says how to begin.
#
# Three builds live side by side in build/, nothing is written anywhere else:
#   build/gpu    nvcc, for a GPU
#   build/cpu    the same .cu files on the CPU backend, fast
#   build/check  the same, with every memory access watched and counted

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# All cores, unless the command line says otherwise.
ifeq ($(MAKELEVEL)$(filter -j% --jobs%,$(MAKEFLAGS)),0)
  MAKEFLAGS += --jobs=$(shell nproc)
endif
.SUFFIXES:

# ---------------------------------------------------------------------------------------------------------------------
# Which backend

NVCC ?= $(firstword $(wildcard $(addsuffix /nvcc,$(subst :, ,$(PATH)) /usr/local/cuda/bin)))
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(NVCC))
# "9.0" for an H200; empty without a driver or a device.
DEVICE_CAPABILITY := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -E '^[0-9]+\.[0-9]+$$' | head -n 1)

ifndef BACKEND
  ifeq ($(NVCC),)
    BACKEND := cpu
    BACKEND_REASON := no nvcc was found
  else ifeq ($(DEVICE_CAPABILITY),)
    BACKEND := cpu
    BACKEND_REASON := nvcc is here, but nvidia-smi shows no device
  else
    BACKEND := gpu
    BACKEND_REASON := nvcc and a device of compute capability $(DEVICE_CAPABILITY) are here
  endif
else
  BACKEND_REASON := BACKEND=$(BACKEND) was asked for
endif
ifeq ($(filter $(BACKEND),gpu cpu),)
  $(error BACKEND is '$(BACKEND)'; it must be gpu or cpu)
endif

# The architectures that `make gpu-build` proves, and the one this machine's device needs.
DEVICE_ARCH := $(addprefix sm_,$(subst .,,$(DEVICE_CAPABILITY)))
DEVICE_ARCH := $(patsubst sm_90,sm_90a,$(DEVICE_ARCH))
NEWEST_ARCH := $(if $(NVCC),$(shell $(NVCC) --list-gpu-code 2>/dev/null | grep -E '^sm_[0-9]+$$' | sort -t_ -k2 -n | tail -n 1))
ARCH ?= $(or $(DEVICE_ARCH),sm_75 sm_80 sm_86 sm_89 sm_90a $(NEWEST_ARCH))

# ---------------------------------------------------------------------------------------------------------------------
# Tools and flags

CC ?= gcc
CXX ?= g++
ifeq ($(origin CC),default)
  CC := gcc
endif
ifeq ($(origin CXX),default)
  CXX := g++
endif
WARNINGS := -Wall -Wextra -Wpedantic -Werror
CFLAGS ?= -O2 -g
C_COMPILE = $(CC) -std=c17 -D_GNU_SOURCE $(WARNINGS) $(CFLAGS) -MMD -MP
# -fPIC, so that one object serves a program and the shared library of the benchmarks.
NVCC_FLAGS := -std=c++17 -O3 -lineinfo -Werror all-warnings -Xcompiler -Wall,-Wextra,-fPIC
SIMTCC := common/simt/simtcc
SIMT_INCLUDE := common/simt/include

# `make V=1` prints the commands themselves.
ifeq ($(V),1)
  say = @:
else
  say = @printf '  %-8s %s\n'
  quiet := @
endif

PACKAGES := g++ make libcriterion-dev
INSTALL := sudo apt-get install -y $(PACKAGES)

STEPS := $(patsubst %/main.c,%,$(wildcard 0?_*/main.c))
STEP_NUMBERS := $(foreach step,$(STEPS),$(firstword $(subst _, ,$(step))))
step_named = $(filter $(1)_%,$(STEPS))

# ---------------------------------------------------------------------------------------------------------------------
# The same rules for each build. $(1) is gpu, cpu or check.

COMMON_SOURCES := $(filter-out common/backend.c common/doctor.c,$(wildcard common/*.c))

include_gpu := -Icommon -I. -isystem $(CUDA_HOME)/include
include_cpu := -I$(SIMT_INCLUDE) -Icommon -I.
include_check := $(include_cpu)

common_gpu := $(COMMON_SOURCES) common/backend.c
common_cpu := $(COMMON_SOURCES)
common_check := $(COMMON_SOURCES)

runtime_gpu :=
runtime_cpu := build/simt/libsimt.a
runtime_check := $(runtime_cpu)

link_gpu = $(NVCC) $(call gencode,$(ARCH))
link_cpu = $(CXX) -pthread
link_check = $(CXX) -pthread
libraries_gpu :=
libraries_cpu := -lm
libraries_check := -lm -ldl

comma := ,
gencode = $(foreach arch,$(1),-gencode=arch=$(patsubst sm_%,compute_%,$(arch))$(comma)code=$(arch))

# A kernel that begins "// needs: sm_80" is compiled for those of ARCH that can run it, and for sm_80 when none can: its
# launcher then refuses the device. sm_90a has instructions that later architectures dropped, so it stands alone.
NEEDS := $(shell grep -Ho '^// needs: sm_[0-9]*a\?' 0?_*/*.cu common/*.cu tests/simt/*.cu tests/ptx/*.cu 2>/dev/null | sed 's,:// needs: sm_,=,')
needed = $(patsubst $(1)=%,%,$(filter $(1)=%,$(NEEDS)))
at_least = $(foreach arch,$(ARCH),$(shell [ $(patsubst %a,%,$(patsubst sm_%,%,$(arch))) -ge $(1) ] && echo $(arch)))
arches_for = $(if $(needed),$(if $(filter %a,$(needed)),sm_$(needed),$(or $(call at_least,$(needed)),sm_$(needed))),$(ARCH))

objects = $(patsubst %,build/$(1)/obj/%.o,$(2))

# ---------------------------------------------------------------------------------------------------------------------
# The same rules for each build: $(1) is gpu, cpu or check

define build_rules
build/$(1)/flags: FORCE | packages-$(1)
	@mkdir -p $$(@D)
	@echo '$$(C_COMPILE) $$(include_$(1)) $(2) $$(ARCH) $$(NVCC_FLAGS)' | cmp -s - $$@ || \
	    echo '$$(C_COMPILE) $$(include_$(1)) $(2) $$(ARCH) $$(NVCC_FLAGS)' > $$@

build/$(1)/obj/%.c.o: %.c build/$(1)/flags
	@mkdir -p $$(@D)
	$$(say) C $$@
	$$(quiet)$$(C_COMPILE) $$(include_$(1)) -c $$< -o $$@

build/$(1)/libcommon.a: $$(call objects,$(1),$$(common_$(1)))
	@rm -f $$@ && ar rcs $$@ $$^

build/$(1)/doctor: $$(call objects,$(1),common/doctor.cu) build/$(1)/libcommon.a $$(runtime_$(1))
	$$(say) LINK $$@
	$$(quiet)$$(link_$(1)) $$^ -o $$@ $$(libraries_$(1))
endef

# $(2) is a step.
define step_rules
build/$(1)/$(2): $$(call objects,$(1),$$(wildcard $(2)/*.c $(2)/*.cu)) build/$(1)/libcommon.a $$(runtime_$(1))
	$$(say) LINK $$@
	$$(quiet)$$(link_$(1)) $$^ -o $$@ $$(libraries_$(1))
endef

# $(2) is a test's name without .c, $(3) the kernels it calls.
define test_rules
build/$(1)/tests/$(2): $$(call objects,$(1),tests/$(2).c tests/ladder.c $(3)) build/$(1)/libcommon.a $$(runtime_$(1))
	@mkdir -p $$(@D)
	$$(say) LINK $$@
	$$(quiet)$$(link_$(1)) $$^ -o $$@ -lcriterion $$(libraries_$(1))
endef

build/gpu/obj/%.cu.o: %.cu build/gpu/flags
	@mkdir -p $(@D)
	$(say) NVCC $@
	$(quiet)$(NVCC) $(NVCC_FLAGS) $(call gencode,$(call arches_for,$<)) -Icommon -I. -MMD -MP -MF $(@:.o=.d) -c $< -o $@

build/cpu/obj/%.cu.o: %.cu build/cpu/flags $(SIMTCC)
	@mkdir -p $(@D)
	$(say) SIMT $@
	$(quiet)$(SIMTCC) -O2 -Wall -Wextra -Werror -Icommon -I. -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $@

build/check/obj/%.cu.o: %.cu build/check/flags $(SIMTCC)
	@mkdir -p $(@D)
	$(say) SIMT $@
	$(quiet)$(SIMTCC) --check -Wall -Wextra -Werror -Icommon -I. -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $@

include common/simt/runtime.mk
include tests/simt/programs/programs.mk
include tests/bench/bench.mk

BUILDS := gpu cpu check
TESTS := $(patsubst tests/%.c,%,$(wildcard tests/test_*.c))
kernels_of_test_common := $(wildcard tests/common/*.cu)
kernels_of_test_cli :=
kernels_of_test_simt := $(wildcard tests/simt/feature_*.cu)
kernels_of_test_simt_check := $(wildcard tests/simt/check_*.cu)
kernels_of_test_ptx := $(wildcard tests/ptx/*.cu)
kernels_of_test = $(if $(filter test_0%,$(1)),$(wildcard 0[1-$(patsubst test_0%,%,$(1))]_*/*.cu),$(kernels_of_$(1)))

$(foreach build,$(BUILDS),$(eval $(call build_rules,$(build),$(if $(filter gpu,$(build)),$$(NVCC),$$(CXX)))))
$(foreach build,$(BUILDS),$(foreach step,$(STEPS),$(eval $(call step_rules,$(build),$(step)))))
$(foreach build,$(BUILDS),$(foreach test,$(TESTS),$(eval $(call test_rules,$(build),$(test),$(call kernels_of_test,$(test))))))

.SECONDARY:
.PHONY: FORCE
FORCE:

-include $(shell find build -name '*.d' 2>/dev/null)

# ---------------------------------------------------------------------------------------------------------------------
# What must be installed, asked once per make and answered with the line that installs it

have = printf '%s\n' $(2) | $(1) -E -x c++ -o /dev/null - 2>/dev/null

.PHONY: packages-cpu packages-check packages-gpu packages-test
packages-cpu packages-check:
	@command -v $(CC) >/dev/null && command -v $(CXX) >/dev/null || { echo 'A C or C++ compiler is missing. Install it with: $(INSTALL)' >&2; exit 1; }

packages-gpu:
	@[ -n '$(NVCC)' ] || { echo 'nvcc is missing. Install the CUDA Toolkit (https://developer.nvidia.com/cuda-downloads), or build for the CPU with BACKEND=cpu.' >&2; exit 1; }

packages-test:
	@$(call have,$(CXX),'#include <criterion/criterion.h>') || { echo 'Criterion is missing. Install it with: $(INSTALL)' >&2; exit 1; }

# ---------------------------------------------------------------------------------------------------------------------
# Targets

# On the CPU the ladder is run where every access is counted: the time of a kernel there says nothing about a GPU.
RUN_BUILD := $(if $(filter gpu,$(BACKEND)),gpu,check)

.PHONY: which-backend
which-backend:
	@echo 'backend: $(BACKEND) ($(BACKEND_REASON))'

.PHONY: help
help: ## List every target
	@echo 'Steps: $(STEPS)'
	@grep -hE '^[a-zA-Z][a-zA-Z0-9%-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/; s/%/NN/' | awk -F '\t' '{ printf "  make %-16s %s\n", $$1, $$2 }'
	@echo 'Variables: BACKEND=gpu|cpu  ARCH=sm_80  (now BACKEND=$(BACKEND): $(BACKEND_REASON))'

.PHONY: run
run: which-backend $(patsubst %,build/$(RUN_BUILD)/%,$(STEPS)) ## Run every step: check each kernel, print the ladders
	@status=0; for step in $(STEPS); do build/$(RUN_BUILD)/$$step || status=$$?; echo; done; exit $$status

run-%: which-backend FORCE ## Run step NN only, as in `make run-03`
	@$(if $(call step_named,$*),,echo 'There is no step $*; there are: $(STEP_NUMBERS)' >&2; exit 2;) \
	    $(MAKE) --no-print-directory -s build/$(RUN_BUILD)/$(call step_named,$*) && build/$(RUN_BUILD)/$(call step_named,$*)

# On the CPU the counters are asserted where they exist: in the checked build.
TEST_RUNS := $(if $(filter gpu,$(BACKEND)),$(patsubst %,gpu/%,$(filter-out test_simt_check,$(TESTS))), \
    $(patsubst %,cpu/%,$(filter-out test_simt_check,$(TESTS))) $(patsubst %,check/%,$(filter test_simt_check test_ptx,$(TESTS))) \
    $(patsubst %,check/%:counters,$(filter test_0%,$(TESTS))))
test_binary = build/$(firstword $(subst /, ,$(1)))/tests/$(firstword $(subst :, ,$(notdir $(1))))

.PHONY: test
test: which-backend packages-test $(sort $(foreach run,$(TEST_RUNS),$(call test_binary,$(run)))) $(patsubst %,build/$(RUN_BUILD)/%,$(STEPS)) ## Pass all tests
	@tests/run $(TEST_RUNS)

test-%: which-backend packages-test FORCE ## Pass the tests of step NN, as in `make test-03` (or test-common, test-cli, test-simt)
	@$(if $(filter test_$*,$(TESTS)),,echo 'There are no tests test_$*; there are: $(TESTS)' >&2; exit 2;) \
	    $(MAKE) --no-print-directory -s $(foreach run,$(filter %/test_$* %/test_$*:counters,$(TEST_RUNS)),$(call test_binary,$(run))) && \
	    tests/run $(filter %/test_$* %/test_$*:counters,$(TEST_RUNS))

SANITIZE_RUNS := $(if $(filter gpu,$(BACKEND)),$(patsubst %,gpu/%,$(filter test_0%,$(TESTS))), \
    $(patsubst %,check/%,$(filter-out test_cli,$(TESTS))))

.PHONY: sanitize
sanitize: which-backend packages-test $(sort $(foreach run,$(SANITIZE_RUNS),$(call test_binary,$(run)))) ## The same tests with every access watched (compute-sanitizer on a GPU)
	@tests/run $(if $(filter gpu,$(BACKEND)),--sanitizer) $(SANITIZE_RUNS)

sanitize-%: which-backend packages-test FORCE ## The same for step NN
	@$(if $(filter %/test_$*,$(SANITIZE_RUNS)),,echo 'There are no tests test_$* to sanitize' >&2; exit 2;) \
	    $(MAKE) --no-print-directory -s $(foreach run,$(filter %/test_$*,$(SANITIZE_RUNS)),$(call test_binary,$(run))) && \
	    tests/run $(if $(filter gpu,$(BACKEND)),--sanitizer) $(filter %/test_$*,$(SANITIZE_RUNS))

.PHONY: gpu-build
gpu-build: packages-gpu $(patsubst %,build/gpu/%,$(STEPS)) $(patsubst %,build/gpu/tests/%,$(filter-out test_simt_check,$(TESTS))) build/gpu/doctor ## Compile everything for the GPU (ARCH, or the whole list), without a GPU
	@CUOBJDUMP=$(firstword $(CUOBJDUMP) $(wildcard $(dir $(NVCC))cuobjdump)) tests/sass $(ARCH)
	@echo 'compiled for: $(ARCH)'

.PHONY: doctor
doctor: ## Say what this machine has, which backend is chosen and why, and run one kernel
	@echo 'backend:      $(BACKEND) ($(BACKEND_REASON))'
	@echo 'architecture: $(ARCH)'
	@echo "compiler:     $$($(CXX) --version 2>/dev/null | head -n 1 || echo 'none; install with: $(INSTALL)')"
	@echo "nvcc:         $$([ -n '$(NVCC)' ] && $(NVCC) --version | grep -o 'release.*' || echo none)"
	@echo "driver:       $$(nvidia-smi --query-gpu=driver_version,name --format=csv,noheader 2>/dev/null | head -n 1 | grep . || echo none)"
	@$(MAKE) --no-print-directory -s build/$(if $(filter gpu,$(BACKEND)),gpu,cpu)/doctor && build/$(if $(filter gpu,$(BACKEND)),gpu,cpu)/doctor

# Versions of clang-format differ in what they make of the same file; 14 is Debian 12's and the one that counts.
CLANG_FORMAT ?= clang-format-14
FORMATTED = $(shell git ls-files -co --exclude-standard '*.c' '*.h' '*.cu' '*.cuh' '*.cpp' 2>/dev/null)

.PHONY: format check-format
format: ## Format all sources (clang-format-14)
	$(CLANG_FORMAT) -i $(FORMATTED)

check-format: ## Fail when a source is not formatted
	$(CLANG_FORMAT) --dry-run --Werror $(FORMATTED)

.PHONY: check-clang
check-clang: ## Compile all host code with clang, warnings as errors
	@for file in $(wildcard common/*.c 0?_*/*.c tests/*.c); do \
	    clang -std=c17 -D_GNU_SOURCE $(WARNINGS) $(include_cpu) -fsyntax-only $$file || exit 1; done

.PHONY: lessons check-lessons
lessons: $(patsubst %,build/check/%,$(STEPS)) ## Write the counted tables into the lessons
	tests/lessons.py --write $(STEPS)

check-lessons: $(patsubst %,build/check/%,$(STEPS)) ## Fail when a lesson's counted table is not what the kernels do
	tests/lessons.py --check $(STEPS)

include tests/broken/broken.mk
include tests/labs/labs.mk

.PHONY: clean
clean: ## Remove build/
	rm -rf build
