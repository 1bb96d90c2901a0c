# These kernels have one planted fault each: common/tools/broken/README.md. They run on the CPU backend, whatever BACKEND
# is, because it can say who raced with whom.
BROKEN_TOOL := $(PYTHON) common/tools/broken/broken.py

# Here KERNEL names faults or exercises. Their steps are asked for first, so an unknown name builds nothing.
TAKES_FAULT := broken test-broken show-broken
ifneq ($(filter $(TAKES_FAULT),$(MAKECMDGOALS)),)
  ifneq ($(if $(filter broken show-broken,$(MAKECMDGOALS)),$(words $(KERNEL)),1),1)
    $(error which one? make $(firstword $(filter $(TAKES_FAULT),$(MAKECMDGOALS))) KERNEL=3, say; `make broken-list` prints what there is)
  endif
  FAULT_STEPS := $(shell $(BROKEN_TOOL) steps $(KERNEL))
  ifneq ($(.SHELLSTATUS),0)
    $(error KERNEL is '$(KERNEL)')
  endif
endif
SOUND := $(foreach build,cpu check,$(patsubst %,build/$(build)/%,$(FAULT_STEPS)))
# These tests assert counters.
COUNTING := build/check/tests/test_claims \
    $(foreach step,$(FAULT_STEPS),build/check/tests/test_$(call before_underscore,$(step)))

.PHONY: test-broken broken show-broken broken-list
test-broken: packages-python $(SOUND) $(COUNTING) ## check: Plant one fault at a time; each must be caught as its file says
	@$(BROKEN_TOOL) test $(KERNEL)

broken: packages-python $(SOUND) ## learn: Build a broken kernel to repair: make broken KERNEL=3 (CAUSE=1 tells more)
	@$(BROKEN_TOOL) show $(KERNEL)

show-broken: packages-python $(filter build/check/%,$(SOUND)) ## learn: Make a page that shows a broken kernel: make show-broken KERNEL=3
	@$(PYTHON) common/tools/show/show.py broken $(KERNEL) $(BLOCK:%=--block %)

broken-list: packages-python ## learn: List the exercises: broken kernels by their symptoms
	@$(BROKEN_TOOL) list
