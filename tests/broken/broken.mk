# Kernels with one planted fault each: tests/broken/README.md. On the CPU backend, whatever BACKEND is: it can say who
# raced with whom.
BROKEN := tests/broken/broken.py
SOUND := $(foreach build,cpu check,$(patsubst %,build/$(build)/%,$(STEPS)))

.PHONY: test-broken broken broken-list
test-broken: $(SOUND) ## Plant one fault at a time in the kernels; each must be caught, by the detector that its file names
	@$(BROKEN) test $(KERNEL)

broken: $(SOUND) ## Build one broken kernel and print what is said of it, as in `make broken KERNEL=3`
	@$(BROKEN) show $(KERNEL)

broken-list: ## Exercises: broken kernels by their symptoms
	@$(BROKEN) list
