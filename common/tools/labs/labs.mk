# These targets make folders for students, and grade. docs/instructor.md explains both.

FORMAT ?= table
OUT ?=
TAKES_STEP += handout check-handout grade
TAKES_KERNEL += grade
$(call as_data,handout grade class-report,STEP SUBMISSION SUBMISSIONS GRADED OUT FORMAT KERNEL LADDER)

.PHONY: handout check-handout grade test-labs class-report
handout: packages-python ## teach: Make a lab folder: make handout STEP=03 OUT=dir (STEP=all for every step)
	@[ -n "$$ARG_STEP" ] && [ -n "$$ARG_OUT" ] || { echo 'usage: make handout STEP=03 OUT=dir' >&2; exit 2; }
	@$(PYTHON) common/tools/labs/handout.py "$$ARG_STEP" "$$ARG_OUT"

check-handout: packages-cpu packages-test packages-python ## check: Prove every handout: no solution in it, stubs fail, solutions pass
	@$(PYTHON) tests/tools/check_handout.py $(STEP)

grade: packages-cpu packages-python ## teach: Grade: make grade STEP=03 SUBMISSION=dir OUT=file FORMAT=gradescope
	@[ -n "$$ARG_STEP" ] && [ -n "$$ARG_SUBMISSION" ] && [ -n "$$ARG_OUT" ] || \
	    { echo 'usage: make grade STEP=03 SUBMISSION=dir OUT=results.json FORMAT=gradescope|classroom50|prairielearn|autolab|junit|table|exit' >&2; exit 2; }
	@LADDER="$$ARG_LADDER" $(PYTHON) common/tools/labs/grade.py "$$ARG_STEP" "$$ARG_SUBMISSION" "$$ARG_OUT" "$$ARG_FORMAT" $${ARG_KERNEL:+"$$ARG_KERNEL"}

test-labs: packages-cpu packages-python ## check: Grade solutions, stubs, mistakes and cheats, thirty at once
	@$(PYTHON) tests/tools/test_labs.py

class-report: packages-python ## teach: Report on a class: make class-report GRADED=dir OUT=class [SUBMISSIONS=dir]
	@[ -n "$$ARG_GRADED" ] && [ -n "$$ARG_OUT" ] || { echo 'usage: make class-report GRADED=dir OUT=class [SUBMISSIONS=dir]' >&2; exit 2; }
	@$(PYTHON) common/tools/labs/class_report.py "$$ARG_GRADED" "$$ARG_OUT" $${ARG_SUBMISSIONS:+"$$ARG_SUBMISSIONS"}
