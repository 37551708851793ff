"""Configuration of the documentation; `make docs` builds it."""

from importlib.metadata import version as installed_version

project = "scurry"
author = "The scurry developers"
copyright = "The scurry developers"
version = release = installed_version("scurry")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
root_doc = "index"
exclude_patterns = ["_build"]
suppress_warnings = ["config.cache", "ref.ref"]  # labels in docstrings inherited from scikit-learn
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "examples",
    "filename_pattern": "/plot_",
    "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
    "download_all_examples": False,
    "show_memory": False,
    "capture_repr": (),
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "scurry"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["scurry.css"]
html_theme_options = {
    "navigation_with_keys": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
# Pages without sub-pages have an empty sidebar, which would only take room from the text.
_ALONE = (
    "benchmarks",
    "command-line",
    "concepts",
    "faq",
    "findings",
    "format",
    "how-it-works",
    "index",
    "large-data",
    "papers",
)
html_sidebars = {page: [] for page in (*_ALONE, "papers/*")}  # the pages of papers have wide tables instead
