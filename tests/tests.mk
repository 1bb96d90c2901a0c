# These are the tests' programs, `make test` and `make sanitize`.

# On a GPU the steps' tests also run as the PTX of these architectures, where it is newer than them.
PTX_OF := $(foreach older,75 80,$(if $(shell [ "$(patsubst sm_%,%,$(DEVICE_ARCH:a=))" -gt $(older) ] 2>/dev/null && echo newer),$(older)))
PTX_BUILDS := $(PTX_OF:%=gpu-ptx%)
# A test has the name of its file, in any folder below tests/.
TEST_SOURCES := $(wildcard tests/*/test_*.c)
TESTS := $(basename $(notdir $(TEST_SOURCES)))
source_of = $(filter %/$(1).c,$(TEST_SOURCES))
kernels_of_test_plans := $(wildcard tests/steps/plans_*.c) $(foreach step,$(STEPS),$(call kernel_files,$(step)))
kernels_of_test_gpu := $(foreach step,$(STEPS),$(call step_files,$(step)))
kernels_of_test_claims := $(kernels_of_test_gpu) tests/steps/serial.cu
kernels_of_test_simt := $(wildcard tests/simt/feature_*.cu)
kernels_of_test_simt_check := $(wildcard tests/simt/check_*.cu)
$(foreach test,$(filter test_ptx%,$(TESTS)),$(eval kernels_of_$(test) := $(wildcard tests/ptx/*.cu)))
# A step's test links the step's kernels, and variants of them that only the test needs.
number_of = $(word 2,$(subst _, ,$(1)))
kernels_of_test = $(if $(filter test_0%,$(1)),$(call step_files,$(call step_named,$(number_of))) $(wildcard tests/steps/tiles_$(number_of).cu),$(kernels_of_$(1)))

# $(2) is a test's name without .c, $(3) the kernels it calls.
define test_rules
build/$(1)/obj/$(call source_of,$(2)).o: | packages-test
build/$(1)/tests/$(2): $$(call objects,$(1),$(call source_of,$(2)) tests/support/ladder.c $(3)) build/$(1)/libcommon.a $$(runtime_$(1))
	@mkdir -p $$(@D)
	$$(say) LINK $$@
	$$(quiet)$$(call whole,$$(link_$(1)) $$^ -lcriterion $$(libraries_$(1)))
endef

# A device also runs the PTX of an older architecture, and with it the code paths of that architecture; $(1) is its
# number. Host code and kernels that need a newer architecture are those of build/gpu.
define ptx_rules
build/gpu-ptx$(1)/obj/%.cu.o: %.cu build/gpu/flags
	@mkdir -p $$(@D)
	$$(say) NVCC $$@
	$$(quiet)$$(call compiled,$$(NVCC) $$(NVCC_FLAGS) -gencode=arch=compute_$(1)$$(comma)code=compute_$(1) $$(kernel_include_gpu) -MMD -MP -c $$<)
endef

runs_on = $(foreach file,$(filter %.cu,$(2)),$(shell [ $(or $(patsubst %a,%,$(call needed,$(file))),0) -le $(1) ] && echo $(file)))

# $(2) is a test's name without .c, $(3) the kernels it calls, $(4) those of them that run on the architecture.
define ptx_test_rules
build/gpu-ptx$(1)/tests/$(2): $$(call objects,gpu,$(call source_of,$(2)) tests/support/ladder.c $$(filter-out $(4),$(3))) $$(call objects,gpu-ptx$(1),$(4)) build/gpu/libcommon.a
	@mkdir -p $$(@D)
	$$(say) LINK $$@
	$$(quiet)$$(call whole,$$(link_gpu) $$^ -lcriterion)
endef

$(foreach build,$(BUILDS),$(foreach test,$(TESTS),$(eval $(call test_rules,$(build),$(test),$(call kernels_of_test,$(test))))))
$(foreach older,$(PTX_OF),$(eval $(call ptx_rules,$(older))))
$(foreach older,$(PTX_OF),$(foreach test,$(filter test_0%,$(TESTS)),$(eval $(call ptx_test_rules,$(older),$(test),$(call \
    kernels_of_test,$(test)),$(call runs_on,$(older),$(call kernels_of_test,$(test)))))))

# ---------------------------------------------------------------------------------------------------------------------

# A claim is a bound on what is counted. One program has the claims of all steps, a suite for each, because the rung before
# may be another step's. A lab's folder, which may have one step, goes without it: `make learn` and the grader check claims.
CLAIMS_RUNS := $(if $(filter test_claims,$(TESTS)),check/test_claims:text $(STEP_NUMBERS:%=check/test_claims:step_%))
# On the CPU only the checked build counts, so only its tests assert counters. `make sanitize` need not do it again.
TEST_RUNS := $(if $(filter gpu,$(BACKEND)),$(patsubst %,gpu/%,$(filter-out test_simt_check test_claims,$(TESTS))) \
    $(foreach build,$(PTX_BUILDS),$(patsubst %,$(build)/%,$(filter test_0%,$(TESTS)))), \
    $(patsubst %,check/%:counters,$(filter test_0%,$(TESTS))) $(CLAIMS_RUNS) \
    $(patsubst %,cpu/%,$(filter-out test_simt_check test_gpu test_claims,$(TESTS))) \
    $(patsubst %,check/%,$(filter test_simt_check test_ptx%,$(TESTS))))
SANITIZE_RUNS := $(if $(filter gpu,$(BACKEND)),$(patsubst %,gpu/%,$(filter test_0%,$(TESTS))), \
    $(patsubst %,check/%:!counters,$(filter test_0%,$(TESTS))) \
    $(patsubst %,check/%,$(filter-out test_0% test_claims test_cli test_gpu,$(TESTS))))

test_binary = build/$(firstword $(subst /, ,$(1)))/tests/$(firstword $(subst :, ,$(notdir $(1))))
test_binaries = $(sort $(foreach run,$(1),$(call test_binary,$(run))))
# The runs of the given tests; all runs when no step and no kernel is chosen. test_06 also stands for test_06_accuracy
# and for the claims of step 06.
runs_of = $(foreach test,$(2),$(foreach build,$(BUILDS) $(PTX_BUILDS),$(filter $(build)/$(test) $(build)/$(test):% \
    $(if $(filter test_0%,$(test)),$(build)/$(test)_% $(build)/test_claims:step_$(test:test_%=%)),$(1))))
chosen_runs = $(if $(STEP)$(KERNEL),$(call runs_of,$(1),$(CHOSEN_NUMBERS:%=test_%)),$(1))
run_tests = tests/run $(KERNEL:%=--kernel=%)
run_sanitized = $(run_tests) $(if $(filter gpu,$(BACKEND)),--sanitizer)

# MINE=1 tests the kernels in work/ in place of the project's, in the checked build.
MINE ?=
ifneq ($(filter-out 0,$(MINE)),)
mine_needs = $(1:%=build/check/tests/test_%) build/check/tests/test_claims
run_mine = $(PYTHON) common/tools/learn/mine.py $(KERNEL:%=--kernel %)
.PHONY: test $(STEP_NUMBERS:%=test-%)
test: packages-python $(call mine_needs,$(CHOSEN_NUMBERS))
	@$(run_mine) $(CHOSEN_NUMBERS)
$(foreach number,$(STEP_NUMBERS),$(eval test-$(number): packages-python $(call mine_needs,$(number)); @$$(run_mine) $(number)))
else
.PHONY: test
test: which-backend $(call test_binaries,$(call chosen_runs,$(TEST_RUNS))) $(patsubst %,build/$(RUN_BUILD)/%,$(CHOSEN_STEPS)) ## test: Run all tests (MINE=1: of the kernels in work/)
	@$(run_tests) $(call chosen_runs,$(TEST_RUNS))
endif

.PHONY: sanitize
sanitize: which-backend $(call test_binaries,$(call chosen_runs,$(SANITIZE_RUNS))) ## test: Run the tests with every access watched (compute-sanitizer on a GPU)
	@$(run_sanitized) $(call chosen_runs,$(SANITIZE_RUNS))

TAKES_STEP += claims
TAKES_KERNEL += claims
claims_runs = $(call chosen_runs,$(CLAIMS_RUNS))

.PHONY: claims
claims: build/check/tests/test_claims ## check: Show what every rung claims; the rung before must not keep it
	@LADDER_CLAIMS=1 $(run_tests) $(claims_runs)

# $(1) is a test's name without "test_".
define test_targets
.PHONY: test-$(1) sanitize-$(1)
$(if $(filter-out 0,$(MINE)),ours-)test-$(1): which-backend $(call test_binaries,$(call runs_of,$(TEST_RUNS),test_$(1))) $(if $(filter cli,$(1)),$(patsubst %,build/$(RUN_BUILD)/%,$(STEPS)))
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
	@$(if $(wildcard tests/steps/sass),CUOBJDUMP=$(firstword $(CUOBJDUMP) $(wildcard $(dir $(NVCC))cuobjdump)) tests/steps/sass $(ARCH))
	@echo 'compiled for: $(ARCH)'
