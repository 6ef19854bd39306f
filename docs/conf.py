"""How Sphinx builds the guide and the API reference: `make docs`. What it can't do by itself is in `tools/guide.py`."""

import sys
from pathlib import Path

# So that `tools` is found.
sys.path.insert(0, str(Path(__file__).parents[1]))

from tools import guide

from firecron import __version__

project = "firecron"
author = "The firecron authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "tools.guide"]
root_doc = "README"

# --- the text

# The anchors of headings are those that GitHub makes.
myst_heading_anchors = 4

# --- the API

add_module_names = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"Slug": "Slug"}
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

# A reference that leads nowhere is an error, unless it leads out of here.
nitpicky = True
nitpick_ignore_regex = [
    # In docstrings a word in backticks may be anything.
    ("py:obj", ".*"),
    # What is of Python and of others.
    (
        "py:class",
        r"(collections|contextlib|datetime|firebase_admin|flask|opentelemetry|pathlib|typing|zoneinfo)(\..*)?",
    ),
    # What nobody needs to know of the inside, and type variables.
    (
        "py:class",
        r"(.*\.)?(AccessFunction|AsgiApp|Crew|Database|HasEvents|JobOptions|Leader|LockRecord|MemoryWatch|OneOrMore"
        r"|PageOptions|Slug|Store|Timing|AppT|TriggerOptions|FaultT|StateT|F|R|T)",
    ),
]

# --- the pages

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = f"firecron {version}"
# furo's own choice underlines the names of modules and classes, as if they were links.
pygments_dark_style = "monokai"
html_copy_source = False
html_show_copyright = False
html_show_sourcelink = False
html_theme_options = {
    "source_repository": guide.REPOSITORY,
    "source_branch": "main",
    "source_directory": "docs/",
}
