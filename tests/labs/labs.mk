# Labs: folders for students, and grading. docs/instructor.md explains both.

LABS_PYTHON ?= python3
FORMAT ?= table
OUT ?=

.PHONY: handout check-handout grade test-labs
handout: ## Make a lab folder: make handout STEP=03 OUT=dir (STEP=all for every step)
	@[ -n '$(STEP)' ] && [ -n '$(OUT)' ] || { echo 'usage: make handout STEP=03 OUT=dir' >&2; exit 2; }
	@$(LABS_PYTHON) tests/labs/handout.py '$(STEP)' '$(OUT)'

check-handout: packages-cpu packages-test ## Prove every handout: no solution in it, the stubs fail, the solution passes
	@$(LABS_PYTHON) tests/labs/check_handout.py $(STEP)

grade: packages-cpu ## Grade: make grade STEP=03 SUBMISSION=dir OUT=results.json FORMAT=gradescope
	@[ -n '$(STEP)' ] && [ -n '$(SUBMISSION)' ] && [ -n '$(OUT)' ] || \
	    { echo 'usage: make grade STEP=03 SUBMISSION=dir OUT=results.json FORMAT=gradescope|classroom50|prairielearn|autolab|junit|table' >&2; exit 2; }
	@$(LABS_PYTHON) tests/labs/grade.py '$(STEP)' '$(SUBMISSION)' '$(OUT)' '$(FORMAT)'

test-labs: packages-cpu ## Grade solutions, stubs, mistakes and cheats, thirty of them at once
	@$(LABS_PYTHON) tests/labs/test_labs.py
