"""What mkdocs.yml cannot express: the pages of two folders, and links to files outside docs/."""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)\s#]*)(#[^)\s]*)?\)")


def repository() -> str | None:
    """The address of the source code, from pyproject.toml."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
    address = next((urls[name] for name in ("Repository", "Source", "Homepage") if name in urls), None)
    return address.rstrip("/") if address else None


def on_config(config: Any) -> Any:
    """List every decision and every experiment, README first."""
    for section in config.nav[-1]["Project"]:
        if isinstance(section, dict):
            (name,) = section
            folder = ROOT / "docs" / name.lower()
            pages = sorted(folder.glob("*.md"), key=lambda page: (page.name != "README.md", page.name))
            section[name] = [page.relative_to(ROOT / "docs").as_posix() for page in pages]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to the source at the repository; if its address is unknown, keep only their text."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))
    address = repository()

    def leading_out(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if target == "docs" or target.startswith("docs/"):
            return link[0]
        return f"[{link[1]}]({address}/blob/main/{target}{link[3] or ''})" if address else link[1]

    return _OUTSIDE.sub(leading_out, markdown)
