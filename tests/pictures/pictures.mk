# The pictures of the lessons: tests/pictures/pictures.py draws them from traces of the checked build.

PICTURES := $(PYTHON) tests/pictures/pictures.py

.PHONY: pictures check-pictures
pictures: packages-python $(patsubst %,build/check/%,$(STEPS)) ## maintain: Draw the lessons' pictures, docs/pictures
	@$(PICTURES) make

check-pictures: packages-python $(patsubst %,build/check/%,$(STEPS)) ## maintain: Fail when a picture is not what the kernels do now
	@$(PICTURES) check
