# The learner's loop is common/tools/learn/learn.py, which says what it does.

TAKES_STEP += learn
TAKES_KERNEL += learn
BROKEN ?=
ifneq ($(if $(filter learn,$(MAKECMDGOALS)),$(or $(filter all,$(STEP)),$(word 2,$(STEP)))),)
  $(error make learn begins at one step: STEP=02, say)
endif

.PHONY: learn learn-status
learn: packages-check packages-python ## learn: Write kernels, checked at each save (STEP=, LADDER=, KERNEL=, BROKEN=1)
	@$(PYTHON) common/tools/learn/learn.py $(STEP:%=--step %) $(LADDER:%=--ladder %) $(KERNEL:%=--kernel %) $(if $(filter-out 0,$(BROKEN)),--broken)

learn-status: packages-python ## learn: Say what you have written and repaired so far
	@$(PYTHON) common/tools/learn/learn.py --status
