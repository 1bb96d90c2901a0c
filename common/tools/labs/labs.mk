# These targets make folders for students, and grade. docs/instructor.md explains both.

FORMAT ?= table
OUT ?=
TAKES_STEP += handout check-handout grade
TAKES_KERNEL += grade

.PHONY: handout check-handout grade test-labs
handout: packages-python ## teach: Make a lab folder: make handout STEP=03 OUT=dir (STEP=all for every step)
	@[ -n $(call quoted,STEP) ] && [ -n $(call quoted,OUT) ] || { echo 'usage: make handout STEP=03 OUT=dir' >&2; exit 2; }
	@$(PYTHON) common/tools/labs/handout.py $(call quoted,STEP) $(call quoted,OUT)

check-handout: packages-cpu packages-test packages-python ## check: Prove every handout: no solution in it, stubs fail, solutions pass
	@$(PYTHON) tests/tools/check_handout.py $(STEP)

grade: packages-cpu packages-python ## teach: Grade: make grade STEP=03 SUBMISSION=dir OUT=file FORMAT=gradescope
	@[ -n $(call quoted,STEP) ] && [ -n $(call quoted,SUBMISSION) ] && [ -n $(call quoted,OUT) ] || \
	    { echo 'usage: make grade STEP=03 SUBMISSION=dir OUT=results.json FORMAT=gradescope|classroom50|prairielearn|autolab|junit|table|exit' >&2; exit 2; }
	@LADDER=$(call quoted,LADDER) $(PYTHON) common/tools/labs/grade.py $(call quoted,STEP) $(call quoted,SUBMISSION) $(call quoted,OUT) $(call quoted,FORMAT) $(call quoted,KERNEL)

test-labs: packages-cpu packages-python ## check: Grade solutions, stubs, mistakes and cheats, thirty at once
	@$(PYTHON) tests/tools/test_labs.py

.PHONY: class-report
class-report: packages-python ## teach: Report on a class: make class-report GRADED=dir OUT=class [SUBMISSIONS=dir]
	@[ -n $(call quoted,GRADED) ] && [ -n $(call quoted,OUT) ] || { echo 'usage: make class-report GRADED=dir OUT=class [SUBMISSIONS=dir]' >&2; exit 2; }
	@$(PYTHON) common/tools/labs/class_report.py $(call quoted,GRADED) $(call quoted,OUT) $(if $(SUBMISSIONS),$(call quoted,SUBMISSIONS))
