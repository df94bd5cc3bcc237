# For a machine with Python 3.11 or newer and make:
#   make book   install, run every chapter at its smoke preset, build the site into _build/html
#   make test   install, run every check and test: package, chapters, site, pages in a browser
#   make lint   only the formatter, the linter and the types
#   make weekly the tests that make test leaves out: slow ones that seldom break
#   make unit   only the tests of the package; TORCH=2.6.0 tries another version of torch
#   make colab  the chapters in an environment with the versions that Colab has
#   make pdf    the book as _build/latex/book.pdf; needs XeLaTeX and latexmk (see the target)
#   make release VERSION=0.2.0   a commit and a tag whose chapters install that tag
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
IN_SITE  := tests/book/test_site.py tests/book/test_pages.py tests/book/test_search.py
# With PJROPE_WEEKLY=1 they try every kernel of the catalogue, every mask and every number type.
TRITON   := tests/attention/test_triton.py tests/attention/test_triton_cubins.py
# The list of all files, touched only when it changes: a file that goes leaves no stamp standing.
FILES    := _build/.files
$(shell mkdir -p _build && printf '%s\n' $(LIBRARY) $(BOOK) $(TESTS) > $(FILES).now \
    && { cmp -s $(FILES).now $(FILES) || cp $(FILES).now $(FILES); })
# A workflow's answer to another torch: the pins first, then the version asked for.
TORCH    ?=
COLAB    := "torch==2.11.*" "ipywidgets==7.7.1"
VERSION  ?=
PUSH     ?=

define LINT
$(RUN) ruff check
$(RUN) ruff format --check
$(RUN) mypy --cache-dir _build/mypy
endef

.PHONY: book test lint unit weekly colab pdf release clean some_chapter
.DELETE_ON_ERROR:

book: $(RAN) $(SITE)
	@echo "The book: file://$(CURDIR)/_build/html/index.html"

# First what keeps one core busy, two at a time; then what starts a process for each core.
test: $(INSTALLED)
	$(MAKE) --jobs=2 --output-sync=target $(LINTED) $(CHECKED) $(SITE)
	$(MAKE) $(TESTED) $(RAN) $(LOOKED)
	@echo "All tests passed. What has not changed is not run again; make clean removes everything built."

lint: $(INSTALLED)
	$(LINT)

unit: $(INSTALLED)
	$(if $(TORCH),$(RUN) pip install --quiet torch==$(TORCH))
	$(RUN) pytest -n 2 --dist worksteal tests --ignore=tests/book

weekly: $(INSTALLED)
	$(RUN) pip install --quiet -c requirements.txt "ray==2.60.*" "triton==3.9.*"
	$(RUN) pytest -m weekly tests
	PJROPE_WEEKLY=1 $(RUN) pytest $(TRITON)

# nbval-lax: another torch prints other digits, so cells must run and need not print the same.
colab: $(INSTALLED)
	$(RUN) pip install --quiet $(COLAB)
	$(RUN) pytest -n 2 --dist loadfile --nbval-lax --nbval-current-env $(CHAPTERS)

# All pages are read anew: for paper they are changed as they are read.
pdf: $(INSTALLED) | some_chapter
	@command -v xelatex >/dev/null && command -v latexmk >/dev/null \
	    || { echo "no xelatex or latexmk: .ci/tex installs them on Debian" >&2; exit 1; }
	$(VENV)/bin/jupyter-book build book --config _config.yml --path-output . --builder pdflatex --all --keep-going --quiet
	@echo "The book: $(CURDIR)/_build/latex/book.pdf"

release: $(INSTALLED)
	$(PY) book/_tools/release.py $(VERSION) $(PUSH)

# No compile: all files of torch take a minute, and Python compiles the few that it imports.
$(INSTALLED): requirements.txt pyproject.toml
	@$(PYTHON) book/_tools/machine.py $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(RUN) pip install --quiet --disable-pip-version-check --no-compile -r requirements.txt -e .
	@touch $@

$(LINTED): $(INSTALLED) $(FILES) $(LIBRARY) $(BOOK) $(TESTS)
	@mkdir -p $(@D)
	$(LINT)
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
	$(RUN) pytest -n 2 --dist worksteal tests $(IN_SITE:%=--ignore=%)
	@touch $@

# The chapters that changed, each alone with the wheel; all of them when the library, a record or the environment did.
$(RAN): $(INSTALLED) $(FILES) $(LIBRARY) $(CHAPTERS) tests/nbval_sanitize.cfg | some_chapter
	@mkdir -p $(@D)
	$(PY) book/_tools/alone.py $(if $(filter-out $(CHAPTERS),$?),$(CHAPTERS),$?)
	@touch $@

# Removed first, so that no page outlives its source.
$(SITE): $(INSTALLED) $(FILES) $(LIBRARY) $(BOOK) | some_chapter
	rm -rf _build/html
	$(VENV)/bin/jupyter-book build book --config _config.yml --path-output . --all -n -W --keep-going --quiet
	@touch $@

$(LOOKED): $(SITE) $(IN_SITE) tests/book/conftest.py
	$(RUN) pytest -n 2 --dist worksteal $(IN_SITE)
	@touch $@

clean:
	rm -rf _build $(VENV)
