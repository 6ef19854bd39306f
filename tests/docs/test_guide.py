"""The guide as web pages: what is made of the Markdown and the docstrings for it, and that the API has every name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, cast, get_origin

import pytest
from tests.docs.documents import PAGES, prose
from tests.unit.test_names_that_stay import NAMES
from tools.guide import (
    DOCS,
    MOVED,
    REPOSITORY,
    Entry,
    Section,
    as_restructured,
    below,
    complete,
    leaving,
    llms,
    menu,
    sections,
    with_addresses,
)

INDEX = """# Guide

* [A link above](tutorial.md): is no entry

### Writing jobs

* [Flask](flask.md), [Django](django.md): its context
* [API](api/README.md): every name

### Going deeper

* [Examples](../examples/README.md): a folder each
"""
_DIRECTIVE = re.compile(r"^\.\. (currentmodule|auto\w+):: ([\w.]+)(\(\))?\n((?:   :.*\n)*)", re.MULTILINE)
# Names that others rely on, but not on those pages: an entry point, and the same Settings as in firecron.
_ELSEWHERE = {"firecron.cli.main", "firecron.settings.Settings", "firecron.settings.load"}


@dataclass
class Documented:
    """What a page of the API says of a name; what is not called, because firecron makes it, has no signature there."""

    is_called: bool
    members: list[str]


def documented() -> dict[str, Documented]:
    """Each name on the pages of the API."""
    found: dict[str, Documented] = {}
    for page in sorted(DOCS.glob("api/*.md")):
        module = ""
        for kind, name, uncalled, options in _DIRECTIVE.findall(page.read_text("utf-8")):
            if kind == "currentmodule":
                module = f"{name}."
                continue
            members = re.search(r":members: (.*)", options)
            full = name if name.startswith(("firecron.", "rtdb_emulator.")) else f"{module}{name}"
            is_called = not uncalled and kind not in ("autodata", "autoexception")
            found[full] = Documented(is_called, members[1].split(", ") if members else [])
    return found


def things() -> Iterator[tuple[str, object, bool]]:
    """Each name and member on the pages, what it is, and whether it is called; a type's keys, which have no value, are
    left out.
    """
    for name, page in documented().items():
        module, _, last = name.rpartition(".")
        thing = getattr(import_module(module), last)
        yield name, thing, page.is_called and callable(thing)
        for member in page.members:
            value = inspect.getattr_static(thing, member, None)
            if value is not None:
                yield f"{name}.{member}", value, callable(value)


def described(thing: object) -> list[str]:
    """The parameters that a docstring describes."""
    lines = as_restructured(inspect.cleandoc(thing.__doc__ or "").splitlines())
    return re.findall(r"^:param (\w+): .", "\n".join(lines), re.MULTILINE)


# --- the API


def test_the_api_has_every_public_name() -> None:
    """Each name that can be imported from a public module has its place on a page."""
    public = {f"{module}.{name}" for module, names in NAMES.items() for name in names} - _ELSEWHERE
    assert public <= {*documented()}


@pytest.mark.parametrize("name", ["firecron", "firecron.testing", "rtdb_emulator"])
def test_the_names_that_stay_are_all_that_are_exported(name: str) -> None:
    """What a module exports is what the API is compared with."""
    assert sorted(import_module(name).__all__) == sorted(NAMES[name])


def test_what_the_api_lists_is_explained() -> None:
    """Each name and member on the pages has a docstring, but a list of words, which shows them."""
    found = list(things())
    assert len(found) > 100
    assert [name for name, thing, _ in found if not thing.__doc__ and get_origin(thing) is not Literal] == []


def test_every_parameter_has_a_line() -> None:
    """Below `Args:` each parameter of what the pages list is described, and nothing else; but an exception's docstring
    is its message.
    """
    for name, thing, is_called in things():
        if is_called:
            given = {*inspect.signature(cast("Callable[..., object]", thing)).parameters} - {"self"}
            assert sorted(described(thing)) == sorted(given), name


# --- the index


def test_an_index_has_its_sections() -> None:
    """A heading begins a section, and each link of an item below it is an entry."""
    assert sections(INDEX) == [
        Section(
            "Writing jobs",
            (
                Entry("Flask", "flask.md", "its context"),
                Entry("Django", "django.md", "its context"),
                Entry("API", "api/README.md", "every name"),
            ),
        ),
        Section("Going deeper", (Entry("Examples", "../examples/README.md", "a folder each"),)),
    ]


def test_every_page_is_in_the_index() -> None:
    """The menu, and with it llms.txt, has each page of the guide."""
    listed = [
        entry.target for section in sections((DOCS / "README.md").read_text("utf-8")) for entry in section.entries
    ]
    pages = {page.relative_to(DOCS).as_posix() for page in PAGES if page.is_relative_to(DOCS)} - {"README.md"}
    assert pages | {"api/README.md", "decisions/README.md"} <= {*listed}
    assert len(listed) == len({*listed})


def test_the_menu_has_pages_by_name_and_others_by_address() -> None:
    """A section is a table of contents, whose entries are documents or addresses."""
    assert menu(INDEX).count("```{toctree}") == 2
    assert "\n:caption: Writing jobs\n\nFlask <flask>\nDjango <django>\nAPI <api/README>\n```" in menu(INDEX)
    assert f"\nExamples <{REPOSITORY}/blob/main/examples/README.md>\n" in menu(INDEX)


def test_pages_lie_below_those_that_list_them(tmp_path: Path) -> None:
    """A table's pages come in its order; below a folder's README come those as well that no table lists."""
    readme, listing = tmp_path / "README.md", tmp_path / "b.md"
    readme.write_text("See [d](d.md).\n\n| [`c`](c.md) | it |\n| [b](b.md) | them |\n", "utf-8")
    listing.write_text("| [a](a.md) | it |\n| [elsewhere](../cost.md) | |\n", "utf-8")
    for name in "acd":
        (tmp_path / f"{name}.md").write_text("text", "utf-8")
    assert below(readme) == ["c", "b", "d"]
    assert below(listing) == ["a"]
    assert below(tmp_path / "a.md") == []


def test_llms_txt_is_as_the_convention_has_it() -> None:
    """A title, a summary in a quotation, and sections of links with what they are about; to Markdown, where the page
    has any that reads.
    """
    assert (
        llms(INDEX, "A summary.")
        == f"""# firecron

> A summary.

## Writing jobs

- [Flask](flask.md): Its context
- [Django](django.md): Its context
- [API](api/README.html): Every name

## Going deeper

- [Examples]({REPOSITORY}/blob/main/examples/README.md): A folder each
"""
    )


def test_what_a_build_adds(tmp_path: Path) -> None:
    """Beside Sphinx's pages lie a start page, pages at old addresses, llms.txt with the Markdown of each page that it
    lists, and the links that leave, which the Markdown has as addresses.
    """
    Path(tmp_path, "README.html").write_text("<p>the guide</p>", "utf-8")
    complete(tmp_path)
    assert Path(tmp_path, "index.html").read_text("utf-8") == "<p>the guide</p>"
    for old, new in MOVED.items():
        assert f'location.replace("{new}.html" + location.hash)' in Path(tmp_path, f"{old}.html").read_text("utf-8")
        assert (DOCS / f"{new}.md").exists()
        assert not (DOCS / f"{old}.md").exists()
    targets = re.findall(r"^- \[.*\]\(([^)]+\.md)\): .", Path(tmp_path, "llms.txt").read_text("utf-8"), re.MULTILINE)
    pages = [Path(tmp_path, target) for target in targets if not target.startswith("https:")]
    assert len(pages) > 15
    listed = Path(tmp_path, "links.txt").read_text("utf-8")
    for page in pages:
        text = page.read_text("utf-8")
        assert all(f"{link}  " in listed for link in leaving(text))
        inside = set(re.findall(r"\]\(([^):#]+)[)#]", prose(page)))
        there = {link for link in inside if (page.parent / link).exists()}
        assert all("api/" in link and link.endswith(".html") for link in inside - there), page


# --- links


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("flask.md", "flask.md"),
        ("decisions/README.md", "decisions/README.md"),
        ("#a-heading", "#a-heading"),
        ("https://example.com", "https://example.com"),
        ("../README.md#see-it", f"{REPOSITORY}/blob/main/README.md#see-it"),
        ("../examples/flask", f"{REPOSITORY}/tree/main/examples/flask"),
        ("conf.py", f"{REPOSITORY}/blob/main/docs/conf.py"),
        ("pictures/demo.svg", "pictures/demo.svg"),
    ],
)
def test_a_link_out_of_the_guide_leads_to_the_repository(link: str, expected: str) -> None:
    """Links to pages and pictures stay, links to any other file become its address."""
    assert with_addresses(f"[a]({link}) b", DOCS / "cost.md") == f"[a]({expected}) b"


def test_what_stands_in_a_block_is_no_link() -> None:
    """Blocks are left as they are, and their links are not listed."""
    text = "[a](https://a.example)\n\n```text\n[b](../README.md)\n[c](https://c.example)\n```\n"
    assert with_addresses(text, DOCS / "cost.md") == text
    assert leaving(text) == ["https://a.example"]


# --- docstrings


def test_a_docstring_becomes_what_sphinx_reads() -> None:
    """Words in backticks are names or code, indented blocks are code, `Args:` are fields, and an asterisk is one."""
    text = """Do `this` to `a:b` * 2.

    with `it`:
        pass

And so on.

Args:
    one: The `first`,
        which goes on.
    two, three: The rest."""
    assert as_restructured(text.splitlines()) == [
        r"Do :py:obj:`this` to ``a:b`` \* 2.",
        "",
        ".. code-block:: python",
        "",
        "    with `it`:",
        "        pass",
        "",
        "And so on.",
        "",
        ":param one: The :py:obj:`first`,",
        "    which goes on.",
        ":param two: The rest.",
        ":param three: The rest.",
        "",
    ]


@pytest.mark.parametrize(("folder", "most"), [("how-to", 600), ("tutorial", 1_500)])
def test_a_page_that_was_not_moved_is_short(folder: str, most: int) -> None:
    """A how-to has 600 words at most, and a tutorial 1,500; those that are older than this rule are left out."""
    pages = [page for page in (DOCS / folder).glob("*.md") if f"{folder}/{page.stem}" not in MOVED.values()]
    assert pages
    assert [page.name for page in pages if len(page.read_text("utf-8").split()) > most] == []
