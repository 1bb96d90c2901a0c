# This file has or includes every target of the project. `make help` lists those that a reader needs, `make help-all` all
# of them; README.md says how to begin.
#
# Three builds live side by side in build/, and write nothing anywhere else:
#   build/gpu    nvcc, for a GPU
#   build/cpu    the same .cu files on the CPU backend, fast
#   build/check  the same, with every memory access watched and counted

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# Make uses all cores, unless the command line says otherwise.
ifeq ($(MAKELEVEL)$(filter -j% --jobs%,$(MAKEFLAGS)),0)
  MAKEFLAGS += --jobs=$(shell nproc)
endif
.SUFFIXES:

# ---------------------------------------------------------------------------------------------------------------------
# Which backend

NVCC ?= $(firstword $(wildcard $(addsuffix /nvcc,$(subst :, ,$(PATH)) /usr/local/cuda/bin)))
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(NVCC))
# This is "9.0" for an H200, and empty without a driver or a device.
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

# These are the architectures that `make gpu-build` proves, and the one that this machine's device needs.
NVCC_ARCHES := $(if $(NVCC),$(shell $(NVCC) --list-gpu-code 2>/dev/null | grep -E '^sm_[0-9]+$$' | sort -t_ -k2 -n))
NEWEST_ARCH := $(lastword $(NVCC_ARCHES))
DEVICE_ARCH := $(addprefix sm_,$(subst .,,$(DEVICE_CAPABILITY)))
# A device that nvcc does not know yet runs what the driver makes of the newest PTX.
DEVICE_ARCH := $(if $(DEVICE_ARCH),$(or $(filter $(DEVICE_ARCH),$(NVCC_ARCHES)),$(NEWEST_ARCH)))
DEVICE_ARCH := $(patsubst sm_90,sm_90a,$(DEVICE_ARCH))
ARCH ?= $(or $(DEVICE_ARCH),sm_75 sm_80 sm_86 sm_89 sm_90a $(NEWEST_ARCH))

# ---------------------------------------------------------------------------------------------------------------------
# Tools and flags

CC ?= gcc
CXX ?= g++
PYTHON ?= python3
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
V ?=
ifeq ($(V),1)
  say = @:
else
  say = @printf '  %-8s %s\n'
  quiet := @
endif

STEPS := $(patsubst %/main.c,%,$(wildcard 0?_*/main.c))
before_underscore = $(firstword $(subst _, ,$(1)))
STEP_NUMBERS := $(foreach step,$(STEPS),$(call before_underscore,$(step)))
step_named = $(filter $(1)_%,$(STEPS))
# A kernel has the name of its file, without the number before it.
kernel_in = $(patsubst $(call before_underscore,$(1))_%,%,$(1))
# The core ladder is in the step's folder, every other ladder in a folder of its own.
LADDERS := limit hopper decode backward variants
in_step = $(wildcard $(1)/$(2) $(LADDERS:%=$(1)/%/$(2)))
kernel_files = $(call in_step,$(1),*.cu)
# A step's files include the rows that name its kernels.
step_files = $(call kernel_files,$(1)) $(wildcard $(1)/*_step.c)
kernels_of = $(foreach file,$(call in_step,$(1),[0-9]*_*.cu),$(call kernel_in,$(basename $(notdir $(file)))))
define newline


endef
# A message lists the kernels of some steps, one line a step.
kernel_lines = $(foreach step,$(1),$(newline)  $(call before_underscore,$(step)): $(call kernels_of,$(step)))

# STEP=03 and KERNEL=name choose, for the targets that take them; the end of this file refuses them elsewhere. They are
# for this make, not for programs that it starts.
TAKES_STEP := run test sanitize
TAKES_KERNEL := $(foreach goal,run test sanitize,$(goal) $(STEP_NUMBERS:%=$(goal)-%))
STEP ?=
KERNEL ?=
LADDER ?=
unexport STEP KERNEL LADDER
# A name that a row says its kernel had, or a fault of that name, means this kernel now. WAS has a word OLD=NEW for each.
old_and_new = $(subst =, ,$(filter $(firstword $(subst -, ,$(1)))=%,$(WAS)))
kernel_now = $(if $(old_and_new),$(patsubst $(firstword $(old_and_new))%,$(lastword $(old_and_new))%,$(1)),$(1))
ifneq ($(KERNEL),)
  WAS := $(shell cat 0?_*/*_step.c | tr '\n' ' ' | sed 's/_ROW./\n/g' | \
      sed -nE 's/^ *(\w+),.*\.about\.was = *"([^"]*)".*/\1 \2/p' | awk '{ for (i = 2; i <= NF; i++) print $$i "=" $$1 }')
  RENAMED := $(strip $(foreach name,$(KERNEL),$(call old_and_new,$(name))))
  ifneq ($(RENAMED),)
    override KERNEL := $(foreach name,$(KERNEL),$(call kernel_now,$(name)))
    $(if $(filter 0,$(MAKELEVEL)),$(shell printf '%s is %s now\n' $(RENAMED) >&2))
  endif
endif
STEPS_OF_STEP := $(if $(filter-out all,$(STEP)),$(foreach number,$(STEP),$(call step_named,$(number))),$(STEPS))
CHOSEN_STEPS := $(if $(KERNEL),$(foreach step,$(STEPS_OF_STEP),$(if \
    $(filter $(KERNEL),$(call kernels_of,$(step))),$(step))),$(STEPS_OF_STEP))
CHOSEN_NUMBERS := $(foreach step,$(CHOSEN_STEPS),$(call before_underscore,$(step)))

# ---------------------------------------------------------------------------------------------------------------------
# The three builds

COMMON_SOURCES := $(filter-out common/device/backend.c,$(wildcard common/harness/*.c common/problems/*.c common/device/*.c))

# Exactly one <ptx.cuh> is on a build's path, and one copy of the vendor's headers; simtcc brings its own.
kernel_include_gpu := -Icommon/device/gpu -Icommon -I.
include_gpu := $(kernel_include_gpu) -isystem $(CUDA_HOME)/include
include_cpu := -I$(SIMT_INCLUDE) -Icommon -I.
include_check := $(include_cpu)

common_gpu := $(COMMON_SOURCES) common/device/backend.c
common_cpu := $(COMMON_SOURCES)
common_check := $(COMMON_SOURCES)

runtime_gpu :=
runtime_cpu := build/simt/libsimt.a
runtime_check := $(runtime_cpu)

kernel_flags_gpu = $(NVCC_FLAGS) for $(ARCH)
kernel_flags_check := $(shell cat common/simt/check/flags)

link_gpu = $(NVCC) $(call gencode,$(ARCH))
link_cpu = $(CXX) -pthread
link_check = $(CXX) -pthread
libraries_gpu :=
libraries_cpu := -lm
libraries_check := -lm -ldl

# A file is compiled to machine code for each architecture, and to PTX of the newest, which the driver compiles for still
# newer devices. An architecture that ends in a letter (sm_90a) has instructions that later devices lack, so they could
# not use its PTX.
comma := ,
newest = $(lastword $(shell printf '%s\n' $(filter-out %a %f,$(1)) | sort -t_ -k2 -n))
gencode = $(foreach arch,$(1),'-gencode=arch=$(arch:sm_%=compute_%)$(comma)code=$(if \
    $(filter $(arch),$(call newest,$(1))),[$(arch)$(comma)$(arch:sm_%=compute_%)],$(arch))')

# A kernel that begins "// needs: sm_80" is compiled for those of ARCH that can run it, and for sm_80 when none can: its
# launcher then refuses the device. sm_90a has instructions that later architectures dropped, so it stands alone.
NEEDS := $(shell grep -Ho '^// needs: sm_[0-9]*a\?' 0?_*/*.cu 0?_*/*/*.cu common/*/*.cu tests/*/*.cu 2>/dev/null | sed 's,:// needs: sm_,=,')
needed = $(patsubst $(1)=%,%,$(filter $(1)=%,$(NEEDS)))
at_least = $(foreach arch,$(ARCH),$(shell [ $(patsubst %a,%,$(patsubst sm_%,%,$(arch))) -ge $(1) ] && echo $(arch)))
# The other kernels are compiled for sm_90 where ARCH says sm_90a, so that they have PTX.
plain = $(sort $(patsubst %f,%,$(patsubst %a,%,$(1))))
arches_for = $(if $(filter %a,$(needed)),sm_$(needed),$(call plain,$(if $(needed),$(or $(call at_least,$(needed)),sm_$(needed)),$(ARCH))))

objects = $(patsubst %,build/$(1)/obj/%.o,$(2))

# ---------------------------------------------------------------------------------------------------------------------
# A target appears whole or not at all: two makes may work in one tree, either may be stopped, and a disk may be full. $(1)
# is a command that takes -o; what it writes has a name of its own until it is complete.

part = $@.$$$$
whole = trap 'rm -f $(part) $(part).d' EXIT; $(1) -o $(part) && $(2) mv -f $(part) $@
compiled = $(call whole,$(1) -MF $(part).d -MT $@,mv -f $(part).d $(@:.o=.d) &&)

# The same rules for each build: $(1) is gpu, cpu or check

define build_rules
build/$(1)/flags: FORCE | packages-$(1)
	@mkdir -p $$(@D)
	@echo '$$(C_COMPILE) $$(include_$(1)) $(2) $$(kernel_flags_$(1))' | cmp -s - $$@ || \
	    { echo '$$(C_COMPILE) $$(include_$(1)) $(2) $$(kernel_flags_$(1))' > $$(part) && mv -f $$(part) $$@; }

build/$(1)/obj/%.c.o: %.c build/$(1)/flags
	@mkdir -p $$(@D)
	$$(say) C $$@
	$$(quiet)$$(call compiled,$$(C_COMPILE) $$(include_$(1)) -c $$<)

build/$(1)/libcommon.a: $$(call objects,$(1),$$(common_$(1)))
	@trap 'rm -f $$(part)' EXIT; ar rcs $$(part) $$^ && mv -f $$(part) $$@

build/$(1)/doctor: $$(call objects,$(1),common/tools/doctor.cu) build/$(1)/libcommon.a $$(runtime_$(1))
	$$(say) LINK $$@
	$$(quiet)$$(call whole,$$(link_$(1)) $$^ $$(libraries_$(1)))
endef

# $(2) is a step.
define step_rules
build/$(1)/$(2): $$(call objects,$(1),$(2)/main.c $$(call step_files,$(2))) build/$(1)/libcommon.a $$(runtime_$(1))
	$$(say) LINK $$@
	$$(quiet)$$(call whole,$$(link_$(1)) $$^ $$(libraries_$(1)))
endef

build/gpu/obj/%.cu.o: %.cu build/gpu/flags
	@mkdir -p $(@D)
	$(say) NVCC $@
	$(quiet)$(call compiled,$(NVCC) $(NVCC_FLAGS) $(call gencode,$(call arches_for,$<)) $(kernel_include_gpu) -MMD -MP -c $<)

# $(1) is cpu or check, $(2) what simtcc is told.
define simt_rules
build/$(1)/obj/%.cu.o: %.cu build/$(1)/flags $(SIMTCC)
	@mkdir -p $$(@D)
	$$(say) SIMT $$@
	$$(quiet)$$(call compiled,$(SIMTCC) $(2) -Wall -Wextra -Werror -Icommon -I. -MMD -MP -c $$<)
endef
$(eval $(call simt_rules,cpu,-O2))
$(eval $(call simt_rules,check,--check))

BUILDS := gpu cpu check
$(foreach build,$(BUILDS),$(eval $(call build_rules,$(build),$(if $(filter gpu,$(build)),$$(NVCC),$$(CXX)))))
$(foreach build,$(BUILDS),$(foreach step,$(STEPS),$(eval $(call step_rules,$(build),$(step)))))

.SECONDARY:
.PHONY: FORCE
FORCE:

-include $(shell find build -name '*.d' 2>/dev/null)

# ---------------------------------------------------------------------------------------------------------------------
# Targets. A line of help reads "## group: what it does".

# On the CPU the ladder runs in the build that counts every access: there a kernel's time says nothing about a GPU.
RUN_BUILD := $(if $(filter gpu,$(BACKEND)),gpu,check)

.PHONY: which-backend
which-backend:
	@echo 'backend: $(BACKEND) ($(BACKEND_REASON))'

help_of = @echo '$(1)'; awk -F ':.*\#\# $(1): ' 'NF == 2 && /^[a-z]/ { printf "  make %-16s %s\n", $$1, $$2 }' $(filter-out %.d,$(MAKEFILE_LIST))

.PHONY: help help-all
help:
	$(call help_of,learn)
	$(call help_of,test)
	$(call help_of,gpu)
	@echo 'STEP=03 (or run-03), LADDER=limit and KERNEL=name choose kernels. All targets: make help-all'
	@echo 'BACKEND=gpu|cpu (now $(BACKEND): $(BACKEND_REASON))   ARCH=sm_80'

help-all: help ## maintain: List all targets: those of make help, and these
	$(call help_of,teach)
	$(call help_of,check)
	$(call help_of,maintain)

kernel_options = $(LADDER:%=--ladder=%) $(patsubst %,--kernel=%,$(filter $(KERNEL),$(call kernels_of,$(1))))

.PHONY: run
run: which-backend $(patsubst %,build/$(RUN_BUILD)/%,$(CHOSEN_STEPS)) ## learn: Check every kernel and print the ladders (STEP=03, KERNEL=name: only those)
	@status=0; $(foreach step,$(CHOSEN_STEPS),build/$(RUN_BUILD)/$(step) $(call kernel_options,$(step)) || status=$$?; echo;) exit $$status

# $(1) is a step.
define run_rules
.PHONY: run-$(call before_underscore,$(1))
run-$(call before_underscore,$(1)): which-backend build/$(RUN_BUILD)/$(1)
	@build/$(RUN_BUILD)/$(1) $$(call kernel_options,$(1))
endef
$(foreach step,$(STEPS),$(eval $(call run_rules,$(step))))

run-%: FORCE
	@echo 'There is no step $*; there are: $(STEP_NUMBERS)' >&2; exit 2

# Names are data: the recipes of $(1) find the variables $(2) in their environment as they are, STEP as ARG_STEP. Neither make
# nor a shell expands them, whatever is in them.
as_data = $(foreach each,$(2),$(eval $(1): export ARG_$(each) := $$(value $(each))))

include common/simt/runtime.mk tests/tests.mk
include $(sort $(wildcard tests/checks.mk tests/*/*/*.mk common/tools/*.mk common/tools/*/[a-z]*.mk docs/make/*.mk))

.PHONY: clean
clean: ## maintain: Remove build/
	rm -rf build

# ---------------------------------------------------------------------------------------------------------------------
# What the command line says is refused before anything is built. (A make that a make started was given it by the first.)

goals_without = $(filter-out $(1) help help-all clean,$(MAKECMDGOALS))
without_numbers = $(filter-out $(STEP_NUMBERS:%=\%-%),$(1))
ASKED_STEPS := $(or $(foreach goal,$(MAKECMDGOALS),$(call step_named,$(lastword $(subst -, ,$(goal))))),$(STEPS_OF_STEP))
# make learn takes a puzzle's name, too.
PUZZLES := $(if $(filter learn,$(MAKECMDGOALS)),$(basename $(notdir $(wildcard 0?_*/puzzles/*.cu))))
NO_KERNELS := $(filter-out $(foreach step,$(ASKED_STEPS),$(call kernels_of,$(step))) $(PUZZLES),$(KERNEL))

GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
MAKEFILES_READ := $(filter-out %.d,$(MAKEFILE_LIST))
digits := 0 1 2 3 4 5 6 7 8 9
without_digits = $(if $(2),$(call without_digits,$(subst $(firstword $(2)),,$(1)),$(wordlist 2,10,$(2))),$(1))
not_a_number = $(or $(word 2,$(1)),$(call without_digits,$(1),$(digits)))

ifeq ($(MAKELEVEL),0)
  ifneq ($(GIVEN),)
    ifneq ($(shell ! command -v $(PYTHON) >/dev/null || $(PYTHON) common/tools/variables.py $(GIVEN) -- $(MAKEFILES_READ) >&2; echo $$?),0)
      $(error what is misspelt would be ignored)
    endif
  endif
  $(foreach name,BLOCK BODIES SAMPLE SECONDS SEED,$(if $(call not_a_number,$($(name))),$(error $(name) is '$($(name))'; it must be a number, 0 or more)))
  ifneq ($(filter-out all $(STEP_NUMBERS),$(STEP)),)
    $(error STEP is '$(STEP)'; it must be all, or some of $(STEP_NUMBERS))
  endif
  ifneq ($(if $(STEP),$(call goals_without,$(TAKES_STEP))),)
    $(error make $(firstword $(call goals_without,$(TAKES_STEP))) takes no STEP; these do: $(call without_numbers,$(TAKES_STEP)))
  endif
  ifneq ($(if $(KERNEL),$(call goals_without,$(TAKES_KERNEL) $(TAKES_FAULT))),)
    $(error make $(firstword $(call goals_without,$(TAKES_KERNEL) $(TAKES_FAULT))) takes no KERNEL; these do: $(call without_numbers,$(TAKES_KERNEL)) $(TAKES_FAULT))
  endif
  ifneq ($(if $(filter $(TAKES_KERNEL),$(MAKECMDGOALS)),$(NO_KERNELS)),)
    $(error KERNEL is '$(KERNEL)'; it must be one of these:$(call kernel_lines,$(ASKED_STEPS)))
  endif
endif
