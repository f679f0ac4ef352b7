"""The texts of the pages' own controls: contents, search, theme, copying. Sentences about a run are in wording/."""

from __future__ import annotations

from nanopace.wording.catalog import Words


def labels(words: Words) -> dict[str, str]:
    """The labels, by the name that the templates use."""
    return {
        "skip": words.text("Skip to the report"),
        "contents": words.text("Contents"),
        "theme": words.text("Theme"),
        "theme_auto": words.text("Auto"),
        "theme_light": words.text("Light"),
        "theme_dark": words.text("Dark"),
        "copy_line": words.text("Copy"),
        "copied": words.text("Copied"),
        "change": words.text("The change that pays most"),
        "find": words.text("Go to iteration"),
        "go": words.text("Go"),
        "iteration": words.text("Iteration"),
        "nearest": words.text("Nearest row"),
        "no_number": words.text("Type the number of an iteration."),
        "no_rows": words.text("No chart here shows iterations."),
        "command": words.text("The command that made this page"),
    }
