# The pictures of the lessons: docs/make/pictures.py draws them from traces of the checked build, and
# docs/make/plots.py the plots from what was measured.

PICTURES := $(PYTHON) docs/make/pictures.py
PLOTS := $(PYTHON) docs/make/plots.py

.PHONY: pictures check-pictures
pictures: packages-python $(patsubst %,build/check/%,$(STEPS)) ## maintain: Draw the lessons' pictures and plots, docs/pictures and docs/results
	@$(PICTURES) make && $(PLOTS) make

check-pictures: packages-python $(patsubst %,build/check/%,$(STEPS)) ## maintain: Fail when one is not what the kernels do, or what was measured
	@$(PICTURES) check && $(PLOTS) check && $(PYTHON) -m doctest docs/make/plots.py
