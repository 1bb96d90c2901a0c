# The part of the labs that a handout has, too.

LABS_PYTHON ?= python3

# Names are data: whatever stands in these variables goes to the program as it is, expanded by neither make nor a shell.
unexport STEP SUBMISSION OUT FORMAT KERNEL
quoted = '$(subst ','\'',$(value $(1)))'

.PHONY: grade-local
grade-local: packages-cpu ## Grade your own files as they will be graded, at other sizes: make grade-local STEP=03 [KERNEL=name]
	@[ -n $(call quoted,STEP) ] || { echo 'usage: make grade-local STEP=03 [KERNEL=name]' >&2; exit 2; }
	@BACKEND=cpu LAB_FEEDBACK=full $(LABS_PYTHON) tests/labs/grade.py $(call quoted,STEP) . - exit $(call quoted,KERNEL)
