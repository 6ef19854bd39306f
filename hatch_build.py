"""What the build adds: the description for a package index, which is the README with absolute links, because the index
has no other file of the repository; and in the wheel the security rules, which `firecron rules` prints.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")


class Description(MetadataHookInterface):
    """The readme that `[project]` of pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add it to the metadata, which has everything else already."""
        root = Path(self.root)
        text = (root / "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, root, metadata["urls"]["Homepage"]),
        }


class Rules(BuildHookInterface[Any]):
    """The rules as a file of the package."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them to a wheel; an editable install reads the repository's file."""
        if version != "editable":
            build_data["force_include"]["emulator/database.rules.json"] = "firecron/database.rules.json"


def with_absolute_links(text: str, root: Path, repository: str) -> str:
    """The README's text with absolute links: to the page of a file or a folder, and to the file itself of an image."""
    raw = repository.replace("https://github.com/", "https://raw.githubusercontent.com/")

    def page(link: re.Match[str]) -> str:
        target = link[1] if not link[1].startswith("#") else f"README.md{link[1]}"
        kind = "tree" if (root / target).is_dir() else "blob"
        return f"]({repository}/{kind}/main/{target})"

    return _LINK.sub(page, _IMAGE.sub(rf"![\1]({raw}/main/\2)", text))
