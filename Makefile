# For a machine with Python 3.11 or newer and make:
#   make book   install, run every chapter at its smoke preset, build the site into _build/html
#   make test   install, run every check and test: package, chapters, site, pages in a browser
#   make lint   only the formatter and the linter
#   make clean  remove what was built and the environment
# Both main targets do only what has changed since the last time. PYTHON=python3.12 picks an
# interpreter, VENV=/somewhere another place for the environment.
PYTHON ?= python3
VENV   ?= .venv
PY     := $(VENV)/bin/python
RUN    := $(PY) -m

INSTALLED := $(VENV)/.installed
LINTED    := _build/.linted
TESTED    := _build/.tested
CHECKED   := _build/.checked
RAN       := _build/.ran
SITE      := _build/.site
LOOKED    := _build/.looked

CODE     := -type f ! -path '*/.*' ! -name '*.pyc'
CHAPTERS := $(sort $(wildcard book/chapters/ch*.ipynb))
# pjrope/record lies inside pjrope: a changed record re-runs the chapters that quote it.
LIBRARY  := $(shell find pjrope data_scripts $(CODE))
BOOK     := _config.yml $(shell find book $(CODE))
TESTS    := $(shell find tests $(CODE))
ABOUT    := README.md CITATION.cff CONTRIBUTING.md CHANGELOG.md Makefile
IN_SITE  := tests/book/test_site.py tests/book/test_pages.py
# The list of all files, touched only when it changes: a file that goes leaves no stamp standing.
FILES    := _build/.files
$(shell mkdir -p _build && printf '%s\n' $(LIBRARY) $(BOOK) $(TESTS) > $(FILES).now \
    && { cmp -s $(FILES).now $(FILES) || cp $(FILES).now $(FILES); })
NBVAL    := -n auto --dist loadfile --nbval --nbval-sanitize-with=tests/nbval_sanitize.cfg --nbval-cell-timeout=300

.PHONY: book test lint clean some_chapter
.DELETE_ON_ERROR:

book: $(RAN) $(SITE)
	@echo "The book: file://$(CURDIR)/_build/html/index.html"

test: $(LINTED) $(CHECKED) $(TESTED) $(RAN) $(SITE) $(LOOKED)
	@echo "All tests passed. What has not changed is not run again; make clean removes everything built."

lint: $(INSTALLED)
	$(RUN) ruff check
	$(RUN) ruff format --check

$(INSTALLED): requirements.txt pyproject.toml
	@$(PYTHON) book/_tools/machine.py $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(RUN) pip install --quiet --disable-pip-version-check -r requirements.txt -e .
	@touch $@

$(LINTED): $(INSTALLED) $(FILES) $(LIBRARY) $(BOOK) $(TESTS)
	@mkdir -p $(@D)
	$(RUN) ruff check
	$(RUN) ruff format --check
	@touch $@

# An empty list of chapters must not read as "nothing to prove".
some_chapter:
	@test -n "$(CHAPTERS)" || { echo "no chapter in book/chapters: the book would be empty" >&2; exit 1; }

$(CHECKED): $(INSTALLED) $(FILES) $(LIBRARY) $(BOOK) $(ABOUT) | some_chapter
	@mkdir -p $(@D)
	$(PY) book/_tools/chapters.py check
	$(PY) book/_tools/pages.py check
	@touch $@

$(TESTED): $(INSTALLED) $(FILES) $(LIBRARY) $(BOOK) $(TESTS) $(ABOUT)
	@mkdir -p $(@D)
	$(RUN) pytest -n 2 tests $(IN_SITE:%=--ignore=%)
	@touch $@

# The chapters that changed; all of them when the library, a record or the environment did.
$(RAN): $(INSTALLED) $(FILES) $(LIBRARY) $(CHAPTERS) tests/nbval_sanitize.cfg | some_chapter
	@mkdir -p $(@D)
	$(RUN) pytest $(NBVAL) $(if $(filter-out $(CHAPTERS),$?),$(CHAPTERS),$?)
	@touch $@

# Removed first, so that no page outlives its source.
$(SITE): $(INSTALLED) $(FILES) $(LIBRARY) $(BOOK) | some_chapter
	rm -rf _build/html
	$(VENV)/bin/jupyter-book build book --config _config.yml --path-output . --all -n -W --keep-going --quiet
	@touch $@

$(LOOKED): $(SITE) $(IN_SITE) tests/book/conftest.py
	$(RUN) pytest $(IN_SITE)
	@touch $@

clean:
	rm -rf _build $(VENV)
