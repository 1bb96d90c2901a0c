# The part of the labs that a handout has, too.

# Names are data: whatever stands in these variables goes to the program as it is, expanded by neither make nor a shell.
unexport STEP SUBMISSION OUT FORMAT KERNEL
quoted = '$(subst ','\'',$(value $(1)))'

TAKES_STEP += grade-local
TAKES_KERNEL += grade-local

.PHONY: grade-local
grade-local: packages-cpu packages-python ## teach: Grade your own files, at other sizes: make grade-local STEP=03
	@[ -n $(call quoted,STEP) ] || { echo 'usage: make grade-local STEP=03 [KERNEL=name]' >&2; exit 2; }
	@BACKEND=cpu LAB_FEEDBACK=full $(PYTHON) common/tools/labs/grade.py $(call quoted,STEP) . - exit $(call quoted,KERNEL)
