# `make book` makes the lessons a book of web pages, build/book/html; docs/make/book.py says how. It has its own copy of Sphinx,
# from requirements.txt. Another one with the same packages does, too: make book BOOK_PYTHON=python3.

BOOK_VENV := build/book/venv
BOOK_PYTHON ?= $(BOOK_VENV)/bin/python

$(BOOK_VENV)/bin/python: docs/make/requirements.txt | packages-python
	@mkdir -p $(@D)
	@{ $(PYTHON) -m venv $(BOOK_VENV) && $(BOOK_VENV)/bin/pip install -q --disable-pip-version-check -r $<; } \
	    || { rm -rf $(BOOK_VENV); printf '%s\n' 'The book needs Python 3.11 with venv (sudo apt-get install -y python3-venv) and, once, a network, or' \
	    'these packages from elsewhere: pip install -r docs/make/requirements.txt; then make book BOOK_PYTHON=python3' >&2; exit 2; }
	@touch $@

.PHONY: book
book: packages-python $(filter $(BOOK_VENV)/%,$(BOOK_PYTHON)) $(patsubst %,build/check/%,$(STEPS)) ## learn: Make the lessons a book of web pages, with their runs
	@$(BOOK_PYTHON) docs/make/book.py
