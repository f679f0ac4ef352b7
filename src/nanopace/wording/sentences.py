"""What each finding says, in English; the catalogues have the other languages.

They stand in modules by subject; here they are together. A sentence says what is so and what to do about it, in words
for people who train models and do not study clocks. It blames nobody, and says "unknown" where something is. Codes and
the names of their numbers are those of diagnosis/codes.py; a test holds the two tables together.
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
