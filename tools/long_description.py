"""The README as the package index shows it. hatchling calls this when it builds: see pyproject.toml.

The index has the text and none of the files, so each relative link becomes the address of that file in the release.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_FENCED = re.compile(r"(^( *)```.*?^\2```)", re.MULTILINE | re.DOTALL)
_RELATIVE = re.compile(r"""(\]\(|\b(?:href|src|srcset)=["'])(?![a-z]+:|//|#)([^)\s"']+)""")
_IMAGES = (".gif", ".jpg", ".jpeg", ".png", ".svg", ".webp")


class LongDescription(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        absolute = with_absolute_links(text, metadata["urls"]["Repository"], f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute}


def with_absolute_links(text: str, repository: str, tag: str) -> str:
    """Links outside code blocks lead to the tagged files; links within the page stay as they are."""

    def absolute(link: re.Match[str]) -> str:
        before, target = link.groups()
        view = "raw" if target.partition("#")[0].lower().endswith(_IMAGES) else "blob"
        return f"{before}{repository}/{view}/{tag}/{target.removeprefix('./')}"

    pieces = _FENCED.split(text)  # prose, block, its indent, prose, ...
    prose = [_RELATIVE.sub(absolute, piece) for piece in pieces[::3]]
    return "".join(part for piece, block in zip(prose, [*pieces[1::3], ""], strict=True) for part in (piece, block))
