"""The texts of the pages themselves: headings, controls, notes. Sentences about a run are in wording/."""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.version import __version__
from nanopace.wording.catalog import Words
from nanopace.wording.template import label

_TEXTS: Mapping[str, str] = {  # by the names that the templates use
    "skip": label("Skip to the report"),
    "contents": label("Contents"),
    "theme": label("Theme"),
    "theme_auto": label("Auto"),
    "theme_light": label("Light"),
    "theme_dark": label("Dark"),
    "copy_line": label("Copy"),
    "copied": label("Copied"),
    "change": label("The change that pays most"),
    "find": label("Go to iteration"),
    "go": label("Go"),
    "iteration": label("Iteration"),
    "nearest": label("Nearest row"),
    "no_number": label("Type the number of an iteration."),
    "no_rows": label("No chart here shows iterations."),
    "command": label("The command that made this page"),
    "explained": label("A training run, explained"),
    "compared": label("Training runs, compared"),
    "runs": label("Runs"),
    "answer": label("The answer"),
    "figures": label("Key figures"),
    "in_order": label("Timeline"),
    "hint": label("Point at a chart for its values; drag to zoom, double-click to zoom out."),
    "clipped": label("Axis cropped: the run starts higher."),
    "facts": label("What is known, and how"),
    "curves": label("The runs overlaid"),
    "all_runs": label("All runs"),
    "language": label("Language"),
    "alerts": label("Alerts"),
    "live": label("Live page"),
    "against": label("against"),
    "noscript": label("The charts need JavaScript. The tables say the same without it."),
    "served": label("Served by nanopace {version}. It only reads the logs."),
    "lost": label("Connection lost. Retrying every two seconds."),
    "made": label("Made by nanopace {version}. This file is complete: it loads nothing."),
}


def headings(words: Words) -> dict[str, str]:
    return {name: words.text(text, version=__version__) for name, text in _TEXTS.items()}
