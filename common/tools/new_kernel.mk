# A new kernel and all that a rung owes: new_kernel.py says what that is. NAME and AFTER are the command line's: an environment
# may have a NAME of its own.
TAKES_STEP += new-kernel
given = $(if $(filter command,$(firstword $(origin $(1)))),$(value $(1)))
NEW_NAME := $(call given,NAME)
NEW_AFTER := $(call given,AFTER)
NEW_LADDER := $(or $(value LADDER),core)
$(call as_data,new-kernel,STEP NEW_LADDER NEW_NAME NEW_AFTER)

.PHONY: new-kernel
new-kernel: packages-check packages-python ## maintain: Begin a kernel (STEP=03 NAME=x AFTER=y LADDER=limit): all that a rung owes
	@CLANG_FORMAT='$(CLANG_FORMAT)' $(PYTHON) common/tools/new_kernel.py "$$ARG_STEP" "$$ARG_NEW_LADDER" "$$ARG_NEW_NAME" "$$ARG_NEW_AFTER"
