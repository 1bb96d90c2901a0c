# A handout has this part of the labs, too.

unexport STEP SUBMISSION SUBMISSIONS GRADED OUT FORMAT KERNEL LADDER
$(call as_data,grade-local,STEP KERNEL LADDER)

TAKES_STEP += grade-local
TAKES_KERNEL += grade-local

.PHONY: grade-local
grade-local: packages-cpu packages-python ## teach: Grade what you wrote, at sizes of its own: make grade-local STEP=03
	@[ -n "$$ARG_STEP" ] || { echo 'usage: make grade-local STEP=03 [KERNEL=name]' >&2; exit 2; }
	@BACKEND=cpu LADDER="$$ARG_LADDER" LAB_FEEDBACK=full LAB_PROGRESS=1 $(PYTHON) common/tools/labs/grade.py "$$ARG_STEP" $(if $(wildcard work/0?_*),work,.) - exit $${ARG_KERNEL:+"$$ARG_KERNEL"}
