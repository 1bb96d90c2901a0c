# The pictures of the lessons: tests/pictures/pictures.py draws them from traces of the checked build, and
# tests/bench/plots.py the plots from what was measured.

PICTURES := $(PYTHON) tests/pictures/pictures.py
PLOTS := $(PYTHON) tests/bench/plots.py

.PHONY: pictures check-pictures
pictures: packages-python $(patsubst %,build/check/%,$(STEPS)) ## maintain: Draw the lessons' pictures and plots, docs/pictures and docs/results
	@$(PICTURES) make && $(PLOTS) make

check-pictures: packages-python $(patsubst %,build/check/%,$(STEPS)) ## maintain: Fail when one is not what the kernels do, or what was measured
	@$(PICTURES) check && $(PLOTS) check && $(PYTHON) -m doctest tests/bench/plots.py
