"""Which language to use."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nanopace.errors import UsageError
from nanopace.wording.numbers import LANGUAGES


def pick_language(flag: str | None, environ: Mapping[str, str]) -> str:
    """The language of --lang, else of the locale, else English."""
    if flag is not None:
        language = _language_of(flag)
        if language not in LANGUAGES:
            raise UsageError(
                "--lang {lang}: unknown language; choose from {known}", lang=flag, known=", ".join(LANGUAGES)
            )
        return language
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := environ.get(name))), "")
    language = _language_of(locale)
    return language if language in LANGUAGES else "en"


def _language_of(locale: str) -> str:
    """The language code of a locale: de for de_DE.UTF-8 and de-AT."""
    return re.split(r"[_.@-]", locale.strip().lower())[0]
