"""How Sphinx builds these pages (`make docs`): without a network, and any warning is an error."""

from pathlib import Path

from paimon_pyds import __version__

project = "paimon_pyds"
release = version = __version__
copyright = "the authors of paimon_pyds, Apache License 2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"paimon_pyds {__version__}"
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))
myst_enable_extensions = ["colon_fence"]
default_role = "code"  # docstrings name things in single backquotes
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_use_type_comments = False
maximum_signature_line_length = 88
myst_heading_anchors = 3
nitpicky = False
highlight_language = "none"
