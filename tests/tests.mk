# The tests: their programs, `make test` and `make sanitize`, and what only the whole tree can prove.

# On a GPU the steps' tests also run as the PTX of these architectures, where it is newer than them.
PTX_OF := $(foreach older,75 80,$(if $(shell [ "$(patsubst sm_%,%,$(DEVICE_ARCH:a=))" -gt $(older) ] 2>/dev/null && echo newer),$(older)))
PTX_BUILDS := $(PTX_OF:%=gpu-ptx%)
# A test's name is that of its file, wherever below tests/ it is.
TEST_SOURCES := $(wildcard tests/*/test_*.c)
TESTS := $(basename $(notdir $(TEST_SOURCES)))
source_of = $(filter %/$(1).c,$(TEST_SOURCES))
kernels_of_test_plans := $(wildcard tests/steps/plans_*.c) $(foreach step,$(STEPS),$(call kernel_files,$(step)))
kernels_of_test_gpu := $(foreach step,$(STEPS),$(call step_files,$(step)))
kernels_of_test_simt := $(wildcard tests/simt/feature_*.cu)
kernels_of_test_simt_check := $(wildcard tests/simt/check_*.cu)
$(foreach test,$(filter test_ptx%,$(TESTS)),$(eval kernels_of_$(test) := $(wildcard tests/ptx/*.cu)))
# Of a step: its kernels, and variants of them that only its tests need.
number_of = $(word 2,$(subst _, ,$(1)))
kernels_of_test = $(if $(filter test_0%,$(1)),$(call step_files,$(call step_named,$(number_of))) $(wildcard tests/steps/tiles_$(number_of).cu),$(kernels_of_$(1)))

# $(2) is a test's name without .c, $(3) the kernels it calls.
define test_rules
build/$(1)/obj/$(call source_of,$(2)).o: | packages-test
build/$(1)/tests/$(2): $$(call objects,$(1),$(call source_of,$(2)) tests/support/ladder.c $(3)) build/$(1)/libcommon.a $$(runtime_$(1))
	@mkdir -p $$(@D)
	$$(say) LINK $$@
	$$(quiet)$$(link_$(1)) $$^ -o $$@ -lcriterion $$(libraries_$(1))
endef

# A device runs the PTX of an older architecture, too, and with it the paths of that architecture; $(1) is its number. Host
# code and kernels that need a newer one are those of build/gpu.
define ptx_rules
build/gpu-ptx$(1)/obj/%.cu.o: %.cu build/gpu/flags
	@mkdir -p $$(@D)
	$$(say) NVCC $$@
	$$(quiet)$$(NVCC) $$(NVCC_FLAGS) -gencode=arch=compute_$(1),code=compute_$(1) $$(kernel_include_gpu) -MMD -MP -MF $$(@:.o=.d) -c $$< -o $$@
endef

runs_on = $(foreach file,$(filter %.cu,$(2)),$(shell [ $(or $(patsubst %a,%,$(call needed,$(file))),0) -le $(1) ] && echo $(file)))

# $(2) is a test's name without .c, $(3) the kernels it calls, $(4) those of them that run on the architecture.
define ptx_test_rules
build/gpu-ptx$(1)/tests/$(2): $$(call objects,gpu,$(call source_of,$(2)) tests/support/ladder.c $$(filter-out $(4),$(3))) $$(call objects,gpu-ptx$(1),$(4)) build/gpu/libcommon.a
	@mkdir -p $$(@D)
	$$(say) LINK $$@
	$$(quiet)$$(link_gpu) $$^ -o $$@ -lcriterion
endef

$(foreach build,$(BUILDS),$(foreach test,$(TESTS),$(eval $(call test_rules,$(build),$(test),$(call kernels_of_test,$(test))))))
$(foreach older,$(PTX_OF),$(eval $(call ptx_rules,$(older))))
$(foreach older,$(PTX_OF),$(foreach test,$(filter test_0%,$(TESTS)),$(eval $(call ptx_test_rules,$(older),$(test),$(call \
    kernels_of_test,$(test)),$(call runs_on,$(older),$(call kernels_of_test,$(test)))))))

# ---------------------------------------------------------------------------------------------------------------------

# On the CPU the counters are asserted where they exist: in the checked build. `make sanitize` need not do it again.
TEST_RUNS := $(if $(filter gpu,$(BACKEND)),$(patsubst %,gpu/%,$(filter-out test_simt_check,$(TESTS))) \
    $(foreach build,$(PTX_BUILDS),$(patsubst %,$(build)/%,$(filter test_0%,$(TESTS)))), \
    $(patsubst %,check/%:counters,$(filter test_0%,$(TESTS))) $(patsubst %,cpu/%,$(filter-out test_simt_check test_gpu,$(TESTS))) \
    $(patsubst %,check/%,$(filter test_simt_check test_ptx%,$(TESTS))))
SANITIZE_RUNS := $(if $(filter gpu,$(BACKEND)),$(patsubst %,gpu/%,$(filter test_0%,$(TESTS))), \
    $(patsubst %,check/%:!counters,$(filter test_0%,$(TESTS))) $(patsubst %,check/%,$(filter-out test_0% test_cli test_gpu,$(TESTS))))

test_binary = build/$(firstword $(subst /, ,$(1)))/tests/$(firstword $(subst :, ,$(notdir $(1))))
test_binaries = $(sort $(foreach run,$(1),$(call test_binary,$(run))))
# Of these runs those of some tests; all of them when no step and no kernel is chosen.
# test_06 stands for test_06_accuracy, too.
runs_of = $(foreach test,$(2),$(foreach build,$(BUILDS) $(PTX_BUILDS),$(filter $(build)/$(test) $(build)/$(test):% \
    $(if $(filter test_0%,$(test)),$(build)/$(test)_%),$(1))))
chosen_runs = $(if $(STEP)$(KERNEL),$(call runs_of,$(1),$(CHOSEN_NUMBERS:%=test_%)),$(1))
run_tests = tests/run $(KERNEL:%=--kernel=%)
run_sanitized = $(run_tests) $(if $(filter gpu,$(BACKEND)),--sanitizer)

.PHONY: test
test: which-backend $(call test_binaries,$(call chosen_runs,$(TEST_RUNS))) $(patsubst %,build/$(RUN_BUILD)/%,$(CHOSEN_STEPS)) ## test: Pass all tests
	@$(run_tests) $(call chosen_runs,$(TEST_RUNS))

.PHONY: sanitize
sanitize: which-backend $(call test_binaries,$(call chosen_runs,$(SANITIZE_RUNS))) ## test: Pass them with every access watched (compute-sanitizer on a GPU)
	@$(run_sanitized) $(call chosen_runs,$(SANITIZE_RUNS))

# $(1) is a test's name without "test_".
define test_targets
.PHONY: test-$(1) sanitize-$(1)
test-$(1): which-backend $(call test_binaries,$(call runs_of,$(TEST_RUNS),test_$(1))) $(if $(filter cli,$(1)),$(patsubst %,build/$(RUN_BUILD)/%,$(STEPS)))
	@$$(run_tests) $(call runs_of,$(TEST_RUNS),test_$(1))

sanitize-$(1): which-backend $(call test_binaries,$(call runs_of,$(SANITIZE_RUNS),test_$(1)))
	@$$(run_sanitized) $(call runs_of,$(SANITIZE_RUNS),test_$(1))
endef
$(foreach test,$(TESTS),$(if $(call runs_of,$(TEST_RUNS) $(SANITIZE_RUNS),$(test)),$(eval $(call test_targets,$(test:test_%=%)))))

test-%: FORCE
	@echo 'There are no tests test_$* (BACKEND is $(BACKEND)); there are: $(TESTS)' >&2; exit 2

sanitize-%: FORCE
	@echo 'There are no tests test_$* to sanitize (BACKEND is $(BACKEND)); there are: $(TESTS)' >&2; exit 2

.PHONY: gpu-build
gpu-build: packages-gpu $(patsubst %,build/gpu/%,$(STEPS)) $(patsubst %,build/gpu/tests/%,$(filter-out test_simt_check,$(TESTS))) build/gpu/doctor ## gpu: Compile everything for ARCH (default: all of them), without a GPU
	@CUOBJDUMP=$(firstword $(CUOBJDUMP) $(wildcard $(dir $(NVCC))cuobjdump)) tests/steps/sass $(ARCH)
	@echo 'compiled for: $(ARCH)'

# ---------------------------------------------------------------------------------------------------------------------
# What is checked beside them

# Versions of clang-format differ in what they make of the same file; 14 is Debian 12's and the one that counts.
CLANG_FORMAT ?= clang-format-14
FORMATTED = $(shell git ls-files -co --exclude-standard '*.c' '*.h' '*.cu' '*.cuh' '*.cpp' 2>/dev/null)

.PHONY: format check-format
format: ## maintain: Format all sources (clang-format-14)
	$(CLANG_FORMAT) -i $(FORMATTED)

check-format: ## maintain: Fail when a source is not formatted
	$(CLANG_FORMAT) --dry-run --Werror $(FORMATTED)

.PHONY: check-clang
check-clang: ## maintain: Compile all host code with clang, warnings as errors
	@for file in $(filter-out tests/steps/test_gpu.c,$(wildcard common/[!t]*/*.c 0?_*/*.c tests/*/*.c)); do \
	    clang -std=c17 -D_GNU_SOURCE $(WARNINGS) $(include_cpu) -fsyntax-only $$file || exit 1; done

.PHONY: check-commands
check-commands: packages-python build/check/01_naive_matmul ## test: What make refuses, make -n, and a clone whose path has a space
	@tests/tools/commands

OVERLAPPING := $(foreach number,02 04 05 06,$(call step_named,$(number)))
.PHONY: check-overlap
check-overlap: packages-python $(OVERLAPPING:%=build/check/%) ## test: By traces: no kernel waits for a copy before it has done other work
	@$(PYTHON) tests/steps/overlap.py $(OVERLAPPING:%=build/check/%)

.PHONY: check-add-kernel
check-add-kernel: packages-python ## test: Add a kernel, one file and one row, to a copy; everything takes it in
	@$(PYTHON) tests/tools/add_kernel.py

.PHONY: check-rules
check-rules: packages-python ## maintain: What holds of the text: rooms, links, launchers, exercises
	@$(PYTHON) tests/rules.py

.PHONY: check-learn
TAKES_STEP += check-learn
check-learn: packages-python $(patsubst %,build/check/%,$(CHOSEN_STEPS)) build/cpu/01_naive_matmul build/check/01_naive_matmul ## test: Drive make learn; plant beginners' mistakes in stubs (STEP=02)
	@$(PYTHON) tests/tools/test_learn.py
	@$(PYTHON) tests/tools/mistakes.py $(STEP)

.PHONY: check-warmup
check-warmup: build/simt/libsimt.a ## test: The warm-up of step 01 accepts right kernels and names wrong ones
	@tests/steps/warmup

# What the faults are compiled against: the sound objects of the step's tests, in both builds. SAMPLE=0 is all of them. What
# is drawn is drawn anew each time, and the seed printed; SEED=n draws the same again.
TAKES_STEP += mutants coverage fuzz
TAKES_KERNEL += mutants fuzz
MUTATED_TESTS := $(foreach number,$(CHOSEN_NUMBERS),$(filter test_$(number)%,$(TESTS)))
SEED ?=
SAMPLE ?= 50
SECONDS ?= 60
.PHONY: mutants coverage fuzz
mutants: packages-python $(foreach build,cpu check,$(MUTATED_TESTS:%=build/$(build)/tests/%)) $(CHOSEN_STEPS:%=build/check/%) ## maintain: Fail when the tests miss a fault made by rule in a kernel (SAMPLE=50 SEED=n)
	@$(PYTHON) tests/nightly/mutants.py run $(CHOSEN_NUMBERS) $(KERNEL:%=--kernel=%) $(SEED:%=--seed %) --sample $(SAMPLE)

coverage: packages-python $(MUTATED_TESTS:%=build/cpu/tests/%) ## maintain: Fail when a loop of a kernel never turns three times in its step's tests
	@$(PYTHON) tests/nightly/coverage.py $(CHOSEN_NUMBERS)

FUZZED := $(patsubst %,build/$(BACKEND)/%,$(CHOSEN_STEPS))
# On a GPU the kernels are compared with PyTorch in double precision, where there is one: then all of them are in a library.
FUZZ_LIBRARY := $(if $(filter gpu,$(BACKEND)),build/gpu/libflashsteps.so)
fuzz: packages-python $(FUZZED) ## maintain: Check kernels at random sizes, on a GPU by PyTorch (SECONDS=60 SEED=n)
	@$(if $(FUZZ_LIBRARY),! $(PYTHON) -c 'import torch; torch.zeros(1).cuda()' 2>/dev/null || $(MAKE) --no-print-directory $(FUZZ_LIBRARY))
	@$(PYTHON) tests/nightly/fuzz.py $(FUZZED) $(FUZZ_LIBRARY:%=--library=%) $(KERNEL:%=--kernel=%) --seconds $(SECONDS) $(SEED:%=--seed %)

# Debian has Chromium as a package, Ubuntu as a snap.
TAKES_STEP += check-show
ALL ?=
.PHONY: check-show
check-show: packages-python $(patsubst %,build/check/%,$(CHOSEN_STEPS)) ## test: Open pages of make show in Chromium (STEP=02; ALL=1: every kernel's)
	@$(PYTHON) tests/tools/test_show.py $(STEP) $(if $(filter-out 0,$(ALL)),--all)
