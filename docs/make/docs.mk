# These targets generate what is in and beside the lessons, and show what a rung changes.

TAKES_KERNEL += diff
CODE ?=
.PHONY: diff
diff: packages-python ## learn: Show what a kernel changes in the one before (KERNEL=name; CODE=1)
	@$(if $(KERNEL),,echo 'Which kernel? make diff KERNEL=$(lastword $(call kernels_of,$(firstword $(STEPS)))), say. There are:'$$'$(subst $(newline),\n,$(call kernel_lines,$(STEPS)))' >&2; exit 2)
	@$(foreach kernel,$(KERNEL),$(PYTHON) common/tools/ladder.py --diff $(kernel) $(if $(filter-out 0,$(CODE)),--code) &&) true

.PHONY: ladder check-ladder
TAKES_STEP += ladder check-ladder lessons check-lessons
ladder: packages-python ## maintain: Count the lines that each rung adds
	@$(PYTHON) common/tools/ladder.py $(CHOSEN_STEPS)

check-ladder: ladder
	@$(PYTHON) -m doctest common/tools/source.py common/tools/ladder.py

# These are the pages in which docs/make/lessons.py writes something: of a step's folder, its README.md and its ladders'.
LESSONS = $(CHOSEN_STEPS) $(if $(STEP),,$(wildcard docs/tour.md))

.PHONY: lessons check-lessons
lessons: packages-python $(patsubst %,build/check/%,$(STEPS)) ## maintain: Write the tables, diffs and excerpts of the lessons
	@$(PYTHON) docs/make/lessons.py --write $(LESSONS)

check-lessons: packages-python $(patsubst %,build/check/%,$(STEPS)) ## check: Fail when a lesson or a folded answer disagrees with the kernels
	@$(PYTHON) -m doctest docs/make/lessons.py && $(PYTHON) docs/make/lessons.py --check $(LESSONS)
	@$(PYTHON) tests/steps/answers.py $(CHOSEN_STEPS)

# docs/make/pictures.py draws the lessons' pictures from traces of the checked build, and docs/make/plots.py draws the
# plots from measurements.

PICTURES := $(PYTHON) docs/make/pictures.py
PLOTS := $(PYTHON) docs/make/plots.py

.PHONY: pictures check-pictures
pictures: packages-python $(patsubst %,build/check/%,$(STEPS)) ## maintain: Draw the lessons' pictures and plots, docs/pictures and docs/results
	@$(PICTURES) make && $(PLOTS) make

check-pictures: packages-python $(patsubst %,build/check/%,$(STEPS)) ## check: Fail when a picture disagrees with the kernels or with what was measured
	@$(PICTURES) check && $(PLOTS) check && $(PYTHON) -m doctest docs/make/plots.py docs/make/maps.py
