"""The sentences of all findings, in English; the catalogues have the other languages.

They are defined in modules by subject and collected here. A sentence states a fact and what to do about it, in words
for people who train models and are not experts in timing. It blames nobody, and says "unknown" if something is. Codes
and names of numbers are those of diagnosis/codes.py; a test keeps the two tables consistent.
"""

from __future__ import annotations

from collections.abc import Mapping

from nanopace.wording.advice import ADVICE
from nanopace.wording.comparisons import COMPARISONS
from nanopace.wording.incidents import INCIDENTS
from nanopace.wording.losses import LOSSES
from nanopace.wording.pace import PACE
from nanopace.wording.reading import READING
from nanopace.wording.slow_rows import SLOW_ROWS
from nanopace.wording.template import Sentence
from nanopace.wording.utilisation import UTILISATION

SENTENCES: Mapping[str, Sentence] = {
    **READING,
    **SLOW_ROWS,
    **PACE,
    **INCIDENTS,
    **LOSSES,
    **UTILISATION,
    **COMPARISONS,
    **ADVICE,
}
