"""Sphinx: `make docs` writes build/docs/index.html from these pages and the module's docstrings."""

import importlib.util
import os
import sys

sys.path.insert(0, os.path.abspath("../build/python"))

import vicinal

project = "vicinal"
version = release = vicinal.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
autosummary_generate = True
autodoc_default_options = {"members": True, "inherited-members": False, "show-inheritance": True,
                           "exclude-members": "set_score_request, set_predict_request, set_fit_request"}
# Pages are built without the libraries that the module can stand beside, of which these alone are imported when a module of ours is; what
# calls them is run by scripts/readme_snippets.py and the tests, where they are installed.
autodoc_mock_imports = [name for name in ("openTSNE", "dask", "ray", "pyarrow") if importlib.util.find_spec(name) is None]
autodoc_typehints = "none"  # the docstrings say them in words
exclude_patterns = ["design", "lab"]
html_theme = "furo"
suppress_warnings = ["myst.xref_missing", "myst.header"]  # links to files of the tree, which are not pages here
