"""What Sphinx needs to build the guide from the same Markdown files that are read on GitHub, as an extension of it.

    index         the lists of docs/README.md are the menu of every page, and the list in llms.txt
    links         what is no page or picture of docs/ becomes an address in the repository; all that leave are listed
                  in links.txt
    docstrings    a word in backticks is a name if there is one, else code; an indented block is code
    addresses     where a page was before it moved, a page leads to the new address
    llms.txt      the index for programs (https://llmstxt.org), beside the Markdown files that it lists

Nothing here follows a link that leaves.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from inspect import getsource
from os.path import relpath
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from pygments.lexers.special import TextLexer
from sphinx.util.nodes import make_refnode

from firecron import Settings

if TYPE_CHECKING:
    from docutils.nodes import Element, TextElement
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures"
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
REPOSITORY: str = _PROJECT["urls"]["Homepage"]

# Where pages are that lay directly in docs/: links to their old addresses are still out there.
MOVED = {
    "choosing-a-ttl": "how-to/choosing-job-options",
    "cloud-run": "how-to/cloud-run",
    "command-line": "reference/command-line",
    "cost": "reference/cost",
    "django": "how-to/django",
    "dynamic-jobs": "how-to/dynamic-jobs",
    "flask": "how-to/flask",
    "handing-off": "how-to/queues-and-cloud-tasks",
    "idempotency-and-fencing": "explanation/idempotency-and-fencing",
    "jobs-and-runs": "reference/jobs-and-runs",
    "leading": "how-to/leader-election",
    "least-privilege": "how-to/least-privilege",
    "logs-and-metrics": "reference/logs-and-metrics",
    "my-job-doesnt-run": "how-to/my-job-doesnt-run",
    "running-commands": "how-to/running-commands",
    "schedules": "reference/schedules",
    "settings": "reference/settings",
    "starting-and-stopping": "how-to/starting-and-stopping",
    "surviving-reruns": "how-to/surviving-reruns",
    "testing-your-jobs": "how-to/testing-your-jobs",
    "the-lock": "how-to/locks",
    "the-page": "how-to/the-page",
    "time-zones": "explanation/time-zones",
    "told-from-outside": "how-to/alerts-and-monitoring",
    "triggers": "how-to/triggers",
    "two-in-the-morning": "how-to/runbook",
    "versions": "reference/versions",
}

# JavaScript keeps the anchor, which the header can't.
_MOVED_PAGE = """<!doctype html>
<meta charset="utf-8">
<title>This page has moved</title>
<link rel="canonical" href="{0}">
<meta http-equiv="refresh" content="1; url={0}">
<script>location.replace("{0}" + location.hash)</script>
<p>This page is now <a href="{0}">{0}</a>.</p>
"""

# Pages whose Markdown is directives, which only Sphinx can read.
_API = "api/"
# Pages for those who change firecron. The search leaves them out: what a user looks for is on other pages.
_INSIDE = ("decisions/", "architecture", "releasing")

_TO_API = re.compile(rf"(?<![\w/])((?:\.\./)?{_API}[\w-]+)\.md")
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_ELSEWHERE = re.compile(r"[a-z]+:")
_ROW = re.compile(r"^\| (.+?) \| ?(.*?) ?\|$", re.MULTILINE)
_PART = re.compile(r"^### (.+)$|^\* (\[.+?\)): (.+)$", re.MULTILINE)
_ENTRY = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_SPAN = re.compile(r"`([^`]+)`")
_DEFAULT = re.compile(r"<(?:class '(?:\w+\.)*)?(\w+)'?>")
_NAME = re.compile(r"[A-Za-z_][\w.]*")


# --- the index


@dataclass(frozen=True)
class Entry:
    """A line of the index: its page, relative to docs/, and what the page is about."""

    title: str
    target: str
    about: str

    @property
    def is_page(self) -> bool:
        """Whether the page is one of the guide's, and not elsewhere in the repository."""
        return not self.target.startswith("../")


@dataclass(frozen=True)
class Section:
    """A part of the index."""

    title: str
    entries: tuple[Entry, ...]


def sections(index: str) -> list[Section]:
    """The parts of an index: below a heading the items of a list, with links and what they are about."""
    found: list[tuple[str, list[Entry]]] = []
    for title, links, about in _PART.findall(index):
        if title:
            found.append((title, []))
        elif found:
            found[-1][1].extend(Entry(name, target, about) for name, target in _ENTRY.findall(links))
    return [Section(title, tuple(entries)) for title, entries in found]


def menu(index: str) -> str:
    """The index as tables of contents, which Sphinx makes its menu of."""
    return "".join(
        _contents([f":caption: {section.title}"], [_menu_entry(entry) for entry in section.entries])
        for section in sections(index)
    )


def _menu_entry(entry: Entry) -> str:
    if entry.is_page:
        return f"{entry.title} <{entry.target.removesuffix('.md')}>"
    return f"{entry.title} <{address(DOCS / entry.target)}>"


def _contents(options: Iterable[str], entries: Iterable[str]) -> str:
    return "\n".join(["\n```{toctree}", ":hidden:", *options, "", *entries, "```", ""])


def below(page: Path) -> list[str]:
    """The documents below a page in the menu: those of its folder that its tables list; below a README of a folder also
    those that no table lists.
    """
    pages = sorted(other.name for other in page.parent.glob("*.md") if other != page)
    listed = {name: _listed((page.parent / name).read_text("utf-8")) for name in pages}
    own = [target for target in _listed(page.read_text("utf-8")) if target in pages]
    rest = [name for name in pages if not any(name in targets for targets in listed.values())]
    found = dict.fromkeys([*own, *rest] if page.name == "README.md" else own)
    return [name.removesuffix(".md") for name in found]


def _listed(text: str) -> list[str]:
    return [target for first, _ in _ROW.findall(text) for _, target in _ENTRY.findall(first)]


def llms(index: str, summary: str) -> str:
    """The index for programs: each page with what it is about, by a link to its Markdown."""
    parts = [f"# {_PROJECT['name']}\n\n> {summary}"]
    for section in sections(index):
        lines = [f"- [{entry.title}]({_readable(entry)}): {_plain(entry.about)}" for entry in section.entries]
        parts.append("\n".join([f"## {section.title}\n", *lines]))
    return "\n\n".join(parts) + "\n"


def _readable(entry: Entry) -> str:
    if not entry.is_page:
        return address(DOCS / entry.target)
    return _TO_API.sub(r"\1.html", entry.target)


def _plain(about: str) -> str:
    return about[:1].upper() + about[1:]


def complete(out: Path) -> None:
    """Write what is made of the whole guide: index.html, old addresses, llms.txt with its pages, links that leave.

    Sphinx copies the pictures that its own pages show; the Markdown pages show those of the same place as in docs/.
    """
    shutil.copytree(PICTURES, out / PICTURES.name, dirs_exist_ok=True)
    (out / "index.html").write_bytes((out / "README.html").read_bytes())
    for old, new in MOVED.items():
        (out / f"{old}.html").write_text(_MOVED_PAGE.format(f"{new}.html"), "utf-8")
    links: dict[str, list[str]] = {}
    for page in sorted(DOCS.rglob("*.md")):
        name = relpath(page, DOCS)
        text = with_addresses(page.read_text("utf-8"), page)
        for link in leaving(text):
            links.setdefault(link, []).append(name)
        if not name.startswith(_API):
            copy = out / name
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(_outside_fences(text, lambda prose: _TO_API.sub(r"\1.html", prose)), "utf-8")
    listed = [f"{link}  {' '.join(dict.fromkeys(pages))}\n" for link, pages in sorted(links.items())]
    (out / "links.txt").write_text("".join(listed), "utf-8")
    index = (DOCS / "README.md").read_text("utf-8")
    (out / "llms.txt").write_text(llms(index, f"{_PROJECT['description']}."), "utf-8")


# --- links


def address(path: Path) -> str:
    """Where a file or a folder of the repository is on the web."""
    kind = "tree" if path.is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{path.resolve().relative_to(ROOT)}"


def with_addresses(text: str, page: Path) -> str:
    """The text of a page in docs/, with links to what is no page or picture of the guide leading to the repository."""

    def found(link: re.Match[str]) -> str:
        path, hash_, anchor = link[1].partition("#")
        target = (page.parent / path).resolve()
        is_ours = target.is_relative_to(PICTURES) or (target.suffix == ".md" and target.is_relative_to(DOCS))
        if not path or is_ours or _ELSEWHERE.match(path):
            return link[0]
        return f"]({address(target)}{hash_}{anchor})"

    return _outside_fences(text, lambda prose: _LINK.sub(found, prose))


def leaving(text: str) -> list[str]:
    """The addresses that a page links to."""
    prose = _FENCE.sub("", text)
    return [target for target in _LINK.findall(prose) if _ELSEWHERE.match(target)]


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    parts = _FENCE.split(text)
    parts[::2] = map(change, parts[::2])
    return "".join(parts)


# --- docstrings


def as_restructured(lines: list[str]) -> list[str]:
    """A docstring of ours in the markup that Sphinx reads: words in backticks are names or code, indented blocks code,
    and each line below `Args:` is a parameter.
    """
    found: list[str] = []
    kind = "text"
    for line in [*lines, ""]:
        is_indented = line.startswith("    ")
        if line == "Args:":
            kind = "parameters"
        elif kind == "text" and is_indented and found and not found[-1]:
            kind = "code"
            found += [".. code-block:: python", "", line]
        elif kind == "code" and (is_indented or not line):
            found.append(line)
        elif kind == "parameters" and is_indented:
            found += _parameters(line)
        else:
            kind = "text"
            found.append(_text(line))
    return found


def _parameters(line: str) -> list[str]:
    """The fields of a line such as `name, ttl: As with …`, or the rest of the one above."""
    names, colon, text = line.strip().partition(": ")
    if line.startswith("        ") or not colon:
        return [f"    {_text(line.strip())}"]
    return [f":param {name}: {_text(text)}" for name in names.split(", ")]


def _text(line: str) -> str:
    parts = _SPAN.split(line)
    parts[::2] = [part.replace("*", r"\*") for part in parts[::2]]
    parts[1::2] = [f":py:obj:`{part}`" if _NAME.fullmatch(part) else f"``{part}``" for part in parts[1::2]]
    return "".join(parts)


# --- the extension

_TYPED: set[ModuleType] = set()


def setup(app: Sphinx) -> dict[str, object]:
    """Connect all of it to a build."""
    app.connect("env-get-outdated", _outdated)
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("autodoc-before-process-signature", _load_types)
    app.connect("autodoc-process-signature", _signature)
    app.connect("missing-reference", _find)
    app.add_lexer("crontab", TextLexer)
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _outdated(
    app: Sphinx, environment: BuildEnvironment, added: set[str], changed: set[str], gone: set[str]
) -> list[str]:
    """The pages whose menus have pages that came or went."""
    return [name for name in environment.found_docs if name.endswith("/README")] if added or gone else []


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    path = DOCS / f"{page}.md"
    source[0] = with_addresses(source[0], path)
    if page.startswith(_INSIDE):
        source[0] = f"---\nnosearch: true\n---\n{source[0]}"
    if page == app.config.root_doc:
        source[0] += menu(source[0])
    elif path.name == "README.md" or page.startswith(_API):
        documents = below(path)
        source[0] += _contents([], documents) if documents else ""


def _docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = as_restructured(lines)
    if obj is Settings:
        lines += [f":param {setting.name}: {_text(setting.metadata['description'])}" for setting in fields(Settings)]


def _load_types(app: Sphinx, obj: object, is_bound: bool) -> None:
    """Give the module of what is documented the names that it imports for type checkers only."""
    module = sys.modules[getattr(obj, "__module__", __name__)]
    if module in _TYPED:
        return
    _TYPED.add(module)
    for node in ast.parse(getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), str(module.__file__), "exec"), vars(module))  # noqa: S102


def _signature(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """No signature of what is not called; and of Settings one by their fields, because they take any keyword."""
    if obj is Settings:
        parameters = [f"{setting.name}: {setting.type} = {setting.default!r}" for setting in fields(Settings)]
        return f"(*, {', '.join(parameters)})", None
    if what == "class" and signature == "()":
        return "", None
    return signature and _DEFAULT.sub(r"\1", signature), returns


def _find(app: Sphinx, environment: BuildEnvironment, node: pending_xref, content: TextElement) -> Element | None:
    """The one documented name that ends with the name that is looked for: annotations have it without its module."""
    name = node.get("reftarget", "")
    domain = environment.domains.python_domain
    found = [(full, entry) for full, entry in domain.objects.items() if full.endswith(f".{name}") and not entry.aliased]
    if node.get("refdomain") != "py" or node.get("reftype") == "obj" or len(found) != 1:
        return None
    [(full, entry)] = found
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content, full)


def _finish(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        complete(Path(app.outdir))
