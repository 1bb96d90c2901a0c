# A handout has this part of the labs, too.

# Names are data: whatever these variables hold goes to the program unchanged, expanded by neither make nor a shell.
unexport STEP SUBMISSION SUBMISSIONS GRADED OUT FORMAT KERNEL
quoted = '$(subst ','\'',$(value $(1)))'

TAKES_STEP += grade-local
TAKES_KERNEL += grade-local

.PHONY: grade-local
grade-local: packages-cpu packages-python ## teach: Grade your own files, at other sizes: make grade-local STEP=03
	@[ -n $(call quoted,STEP) ] || { echo 'usage: make grade-local STEP=03 [KERNEL=name]' >&2; exit 2; }
	@BACKEND=cpu LADDER=$(call quoted,LADDER) LAB_FEEDBACK=full LAB_PROGRESS=1 $(PYTHON) common/tools/labs/grade.py $(call quoted,STEP) . - exit $(call quoted,KERNEL)
