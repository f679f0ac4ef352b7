"""The README for the package index. hatchling calls this when it builds: see pyproject.toml.

The index has the text but none of the files, so each relative link becomes the address of that file in the release.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_CODE = r"^( *)```.*?^\1```|`[^`\n]*`"
_RELATIVE = r"""(\]\(|\b(?:href|src|srcset)=["'])(?![a-z]+:|//|#)([^)\s"']+)"""
_CODE_OR_LINK = re.compile(f"{_CODE}|{_RELATIVE}", re.MULTILINE | re.DOTALL)
_IMAGES = (".gif", ".jpg", ".jpeg", ".png", ".svg", ".webp")


class LongDescription(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        revision = "main" if "dev" in metadata["version"] else f"v{metadata['version']}"
        text = with_absolute_links(text, metadata["urls"]["Repository"], revision)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_absolute_links(text: str, repository: str, revision: str) -> str:
    """The text with links outside code pointing to the files of that revision; links within the page stay."""

    def absolute(found: re.Match[str]) -> str:
        _, before, target = found.groups()
        if before is None:
            return found[0]
        view = "raw" if target.lower().endswith(_IMAGES) else "blob"
        return f"{before}{repository}/{view}/{revision}/{target.removeprefix('./')}"

    return _CODE_OR_LINK.sub(absolute, text)
