"""Sphinx builds the site from these settings: `sphinx-build -W docs site`."""

from __future__ import annotations

import inspect
import os
import re
import sys
from urllib.error import URLError
from urllib.request import urlopen

os.environ.setdefault("MPLBACKEND", "Agg")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from full_docstrings import full_docstring

import fastens

project = "fastens"
author = "fastens developers"
copyright = author  # noqa: A001
version = release = fastens.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_templates", "examples"]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "inherited-members": True}
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

copybutton_exclude = ".linenos, .gp, .go"


def inventories() -> dict[str, tuple[str, None]]:
    """The other projects whose pages can be reached now: a build without a network has no links to them."""
    pages = {
        "numpy": "https://numpy.org/doc/stable",
        "pandas": "https://pandas.pydata.org/docs",
        "python": "https://docs.python.org/3",
        "sklearn": "https://scikit-learn.org/stable",
    }
    reached = {}
    for name, address in pages.items():
        try:
            with urlopen(f"{address}/objects.inv", timeout=3):
                reached[name] = (address, None)
        except (URLError, TimeoutError):
            continue
    return reached


intersphinx_mapping = inventories()

sphinx_gallery_conf = {
    "examples_dirs": ["examples"],
    "gallery_dirs": ["gallery"],
    "doc_module": ("fastens",),
    "reference_url": {"fastens": None},
    "backreferences_dir": "gallery/backreferences",
    "abort_on_example_error": True,
    "parallel": os.cpu_count(),
    "download_all_examples": False,
    "remove_config_comments": True,
    "write_computation_times": False,
    "within_subsection_order": "ExampleTitleSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = "fastens"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "logo": {"text": "fastens"},
    "header_links_before_dropdown": 4,
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {page: [] for page in ("index", "benchmarks", "coming-from", "architecture")}
html_show_sourcelink = False


def skip_inherited(app, what, name, member, skip, options):
    """Leave out what scikit-learn's base classes bring: their pages describe it, with links to pages of theirs."""
    return skip or (getattr(member, "__module__", None) or "").startswith("sklearn.") or name.endswith("_request")


def add_sections(app, what, name, obj, options, lines):
    """Add the sections that docstrings of methods leave out, so that ``help()`` of a class is short."""
    if what == "method" and inspect.isfunction(obj) and obj.__module__.startswith("fastens."):
        lines[:] = full_docstring(obj).splitlines()


def escape_shapes(app, what, name, obj, options, lines):
    """Write ``n_features_in_`` in shapes so that it is no link of reStructuredText."""
    lines[:] = [re.sub(r"(?<=\w)_(?=[,) ])", r"\_", line) if "shape (" in line else line for line in lines]


def setup(app):
    """Connect the handlers."""
    app.connect("autodoc-process-docstring", add_sections, priority=300)
    app.connect("autodoc-process-docstring", escape_shapes, priority=400)  # before numpydoc's
    app.connect("autodoc-skip-member", skip_inherited)
