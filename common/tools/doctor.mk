DOCTOR := build/$(if $(filter gpu,$(BACKEND)),gpu,cpu)/doctor
.PHONY: doctor
doctor: ## learn: Say what this machine has, and which backend is chosen; run one kernel
	@echo 'backend:      $(BACKEND) ($(BACKEND_REASON))'
	@echo 'architecture: $(ARCH)'
	@echo "compiler:     $$($(CXX) --version 2>/dev/null | head -n 1 | grep . || echo 'none; install with: $(INSTALL)')"
	@echo "python:       $$($(PYTHON) --version 2>/dev/null || echo 'none; install with: $(INSTALL)')"
	@echo "nvcc:         $$([ -z '$(NVCC)' ] && echo none || $(NVCC) --version 2>/dev/null | grep -o 'release.*' || \
	    echo '$(NVCC) does not run; BACKEND=cpu does without it')"
	@echo "driver:       $$(nvidia-smi --query-gpu=driver_version,name --format=csv,noheader 2>/dev/null | head -n 1 | grep . || echo none)"
	@$(MAKE) --no-print-directory $(DOCTOR)
	@$(DOCTOR)
