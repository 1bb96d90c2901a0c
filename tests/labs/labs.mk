# Labs: folders for students, and grading. docs/instructor.md explains both.

include tests/labs/local.mk

FORMAT ?= table

.PHONY: handout check-handout grade test-labs
handout: ## Make a lab folder: make handout STEP=03 OUT=dir (STEP=all for every step)
	@[ -n $(call quoted,STEP) ] && [ -n $(call quoted,OUT) ] || { echo 'usage: make handout STEP=03 OUT=dir' >&2; exit 2; }
	@$(LABS_PYTHON) tests/labs/handout.py $(call quoted,STEP) $(call quoted,OUT)

check-handout: packages-cpu packages-test ## Prove every handout: no solution in it, the stubs fail, the solution passes
	@$(LABS_PYTHON) tests/labs/check_handout.py $(STEP)

grade: packages-cpu ## Grade: make grade STEP=03 SUBMISSION=dir OUT=results.json FORMAT=gradescope [KERNEL=name]
	@[ -n $(call quoted,STEP) ] && [ -n $(call quoted,SUBMISSION) ] && [ -n $(call quoted,OUT) ] || \
	    { echo 'usage: make grade STEP=03 SUBMISSION=dir OUT=results.json FORMAT=gradescope|classroom50|prairielearn|autolab|junit|table|exit' >&2; exit 2; }
	@$(LABS_PYTHON) tests/labs/grade.py $(call quoted,STEP) $(call quoted,SUBMISSION) $(call quoted,OUT) $(call quoted,FORMAT) $(call quoted,KERNEL)

test-labs: packages-cpu ## Grade solutions, stubs, mistakes and cheats, thirty of them at once
	@$(LABS_PYTHON) tests/labs/test_labs.py
