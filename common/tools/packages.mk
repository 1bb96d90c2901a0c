# Each make asks once whether this is installed, and otherwise prints the line that installs it.

PACKAGES := g++ make python3 libcriterion-dev
INSTALL := sudo apt-get install -y $(PACKAGES)

have = printf '%s\n' $(2) | $(1) -E -x c++ -o /dev/null - 2>/dev/null

.PHONY: packages-cpu packages-check packages-gpu packages-test packages-python
packages-cpu packages-check:
	@command -v $(CC) >/dev/null && command -v $(CXX) >/dev/null || { echo 'A C or C++ compiler is missing. Install it with: $(INSTALL)' >&2; exit 2; }

packages-gpu:
	@[ -n '$(NVCC)' ] || { echo 'nvcc is missing. Install the CUDA Toolkit (https://developer.nvidia.com/cuda-downloads), or build for the CPU with BACKEND=cpu.' >&2; exit 2; }
	@[ -z '$(filter-out sm_%,$(ARCH))' ] || { echo "ARCH is '$(ARCH)'; it must be like sm_80, or several of those" >&2; exit 2; }

packages-test:
	@$(call have,$(CXX),'#include <criterion/criterion.h>') || { echo 'Criterion is missing. Install it with: $(INSTALL)' >&2; exit 2; }

packages-python:
	@command -v $(PYTHON) >/dev/null || { echo 'Python is missing. Install it with: $(INSTALL)' >&2; exit 2; }
