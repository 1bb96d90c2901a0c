# These targets check what tests do not: the text, the tools, and what only the whole tree can prove. Handouts have none
# of them.

# Versions of clang-format lay out the same file differently. Version 14, Debian 12's, is the one that counts.
CLANG_FORMAT ?= clang-format-14
FORMATTED = $(shell git ls-files -co --exclude-standard '*.c' '*.h' '*.cu' '*.cuh' '*.cpp' 2>/dev/null)

.PHONY: format check-format
format: ## maintain: Format all sources (clang-format-14)
	$(CLANG_FORMAT) -i $(FORMATTED)

check-format: ## check: Fail when a source is not formatted
	$(CLANG_FORMAT) --dry-run --Werror $(FORMATTED)

.PHONY: check-clang
check-clang: ## check: Compile all host code with clang, warnings as errors
	@for file in $(filter-out tests/steps/test_gpu.c,$(wildcard common/[!t]*/*.c 0?_*/*.c tests/*/*.c)); do \
	    clang -std=c17 -D_GNU_SOURCE $(WARNINGS) $(include_cpu) -fsyntax-only $$file || exit 1; done

.PHONY: check-commands
check-commands: packages-python build/check/01_naive_matmul ## check: Check what make refuses, make -n, and a clone whose path has a space
	@tests/tools/commands

OVERLAPPING := $(foreach number,02 04 05 06,$(call step_named,$(number)))
.PHONY: check-overlap
check-overlap: packages-python $(OVERLAPPING:%=build/check/%) ## check: Check by traces that no kernel waits for a copy before other work is done
	@$(PYTHON) tests/steps/overlap.py $(OVERLAPPING:%=build/check/%)

.PHONY: check-add-kernel
check-add-kernel: packages-python ## check: Add a kernel to a copy, one file and one row; everything must take it in
	@$(PYTHON) tests/tools/add_kernel.py

.PHONY: check-rules
check-rules: packages-python ## check: Check the rules of the text: rooms, links, launchers, exercises
	@$(PYTHON) tests/rules.py

.PHONY: check-learn
TAKES_STEP += check-learn
check-learn: packages-python $(patsubst %,build/check/%,$(CHOSEN_STEPS)) build/cpu/01_naive_matmul build/check/01_naive_matmul ## check: Drive make learn; plant beginners' mistakes in stubs (STEP=02)
	@$(PYTHON) tests/tools/test_learn.py
	@$(PYTHON) tests/tools/mistakes.py $(STEP)

# BODIES says how many rungs; 0 takes all.
BODIES ?= 6
TAKES_KERNEL += check-bodies
.PHONY: check-bodies
check-bodies: packages-python $(STEPS:%=build/check/%) ## check: Give rungs wrong bodies; learn must not call them right (BODIES=0: all)
	@$(PYTHON) tests/tools/test_bodies.py --sample $(BODIES) $(SEED:%=--seed %) $(KERNEL)

.PHONY: check-puzzles
check-puzzles: packages-python build/simt/libsimt.a ## check: Check puzzles and hints: right answers pass, others are told why
	@$(PYTHON) tests/tools/test_puzzles.py

# The faults are compiled against the sound objects of the step's tests, in both builds. SAMPLE=0 takes all faults. Each
# run draws a new sample and prints its seed; SEED=n draws the same sample again.
TAKES_STEP += mutants coverage fuzz
TAKES_KERNEL += mutants fuzz
MUTATED_TESTS := $(foreach number,$(CHOSEN_NUMBERS),$(filter test_$(number)%,$(TESTS)))
SEED ?=
SAMPLE ?= 50
SECONDS ?= 60
.PHONY: mutants coverage fuzz
mutants: packages-python $(foreach build,cpu check,$(MUTATED_TESTS:%=build/$(build)/tests/%)) $(CHOSEN_STEPS:%=build/check/%) ## check: Fail when the tests miss a fault made by rule in a kernel (SAMPLE=50 SEED=n)
	@$(PYTHON) tests/nightly/mutants.py run $(CHOSEN_NUMBERS) $(KERNEL:%=--kernel=%) $(SEED:%=--seed %) --sample $(SAMPLE)

coverage: packages-python $(MUTATED_TESTS:%=build/cpu/tests/%) ## check: Fail when a loop of a kernel never turns three times in its step's tests
	@$(PYTHON) tests/nightly/coverage.py $(CHOSEN_NUMBERS)

FUZZED := $(patsubst %,build/$(BACKEND)/%,$(CHOSEN_STEPS))
# On a GPU the kernels are compared with PyTorch in double precision, where PyTorch is installed. All kernels are then in
# one library.
FUZZ_LIBRARY := $(if $(filter gpu,$(BACKEND)),build/gpu/libflashsteps.so)
fuzz: packages-python $(FUZZED) ## check: Check kernels at random sizes, on a GPU by PyTorch (SECONDS=60 SEED=n)
	@$(if $(FUZZ_LIBRARY),! $(PYTHON) -c 'import torch; torch.zeros(1).cuda()' 2>/dev/null || $(MAKE) --no-print-directory $(FUZZ_LIBRARY))
	@$(PYTHON) tests/nightly/fuzz.py $(FUZZED) $(FUZZ_LIBRARY:%=--library=%) $(KERNEL:%=--kernel=%) --seconds $(SECONDS) $(SEED:%=--seed %)

# Debian has Chromium as a package, Ubuntu as a snap.
TAKES_STEP += check-show
ALL ?=
.PHONY: check-show
check-show: packages-python $(patsubst %,build/check/%,$(CHOSEN_STEPS)) ## check: Open pages of make show in Chromium (STEP=02; ALL=1: every kernel's)
	@$(PYTHON) tests/tools/test_show.py $(STEP) $(if $(filter-out 0,$(ALL)),--all)

.PHONY: check-book
check-book: book ## check: Follow the book's links, open its kinds of pages in Chromium (ALL=1: all)
	@$(BOOK_PYTHON) tests/tools/test_book.py $(if $(filter-out 0,$(ALL)),--all)
