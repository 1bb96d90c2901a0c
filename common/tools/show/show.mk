# These make pages that show what a kernel did: common/tools/show/show.py says what is on them. They come from the checked
# build, whatever BACKEND is. OPTIONS are those of the step's program; MINE=1 takes your kernels in work/.

TAKES_STEP += show
TAKES_KERNEL += show $(STEP_NUMBERS:%=show-%)
OPTIONS ?=
BLOCK ?=
AT ?=
MINE ?=
$(call as_data,show $(STEP_NUMBERS:%=show-%),AT)
SHOW := $(PYTHON) common/tools/show/show.py
show_step = $(SHOW) step $(1) $(KERNEL:%=--kernel %) $(if $(OPTIONS),--options '$(OPTIONS)') $(BLOCK:%=--block %) \
    $(if $(AT),--at "$$ARG_AT") $(if $(filter-out 0,$(MINE)),--mine)

.PHONY: show
show: packages-python $(patsubst %,build/check/%,$(CHOSEN_STEPS)) ## learn: Make a page that shows what a kernel does: make show STEP=02 KERNEL=name
	@$(foreach step,$(CHOSEN_STEPS),$(call show_step,$(step)) &&) true

# $(1) is a step.
define show_rules
.PHONY: show-$(call before_underscore,$(1))
show-$(call before_underscore,$(1)): packages-python build/check/$(1)
	@$$(call show_step,$(1))
endef
$(foreach step,$(STEPS),$(eval $(call show_rules,$(step))))
