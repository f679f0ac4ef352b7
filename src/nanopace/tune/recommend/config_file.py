"""A recommendation as a config file that nanoGPT can also read: names and literals, each followed by its reason.

nanoGPT silently accepts and ignores names that it does not know, so nanopace's own knobs are at the end. Comments are
English and ASCII, because nanoGPT opens the file in the machine's default encoding.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from nanopace.config import KNOBS
from nanopace.errors import InputError, reason_of
from nanopace.files import atomic_file
from nanopace.tune.recommend.choices import Choice
from nanopace.tune.recommend.notes import headline, notes
from nanopace.tune.recommend.recommend import Recommendation
from nanopace.wording.catalog import Words, words


def config_text(found: Recommendation) -> str:
    """The complete file."""
    english = words("en")
    lines = [f"# {line}" for line in _opening(found, english)]
    lines += [_line(choice, english) for choice in found.knobs if _is_shared(choice)]
    lines += ["", "# nanopace's own settings, which nanoGPT ignores:"]
    lines += [_line(choice, english) for choice in found.knobs if not _is_shared(choice)]
    text = "\n".join(lines) + "\n"
    return text.replace("\u00a0", " ").encode("ascii", "replace").decode()


def _is_shared(choice: Choice) -> bool:
    """nanoGPT takes the vocabulary from the dataset, but it belongs with the rest of the shape."""
    knob = KNOBS[choice.knob]
    return knob.nanogpt or knob.part == "shape"


def _line(choice: Choice, english: Words) -> str:
    value = json.dumps(choice.value) if isinstance(choice.value, str) else repr(choice.value)  # in double quotes
    return f"{choice.knob} = {value}  # {english.reason(choice.reason, choice.numbers)}"


def _opening(found: Recommendation, english: Words) -> list[str]:
    card = f"{english.card(found.card)} ({found.memory_gb:g} GB)"
    said = [f"{found.model.name}, {english.si(found.parameters)} parameters, on one {card}: nanopace recommend."]
    if found.tokens_per_s is not None and found.seconds is not None:
        speed, time = found.tokens_per_s, found.seconds
        said.append(
            f"Expected: {english.si(speed.expected)} tokens/s ({english.si(speed.low)} to {english.si(speed.high)}), "
            f"{english.duration(time.expected)} in all ({english.duration(time.low)} to {english.duration(time.high)})."
        )
    said += [english.note(code, numbers) for code, numbers in headline(found)]
    if (loss := found.loss) is not None:
        said.append(f"Final loss on web text: about {loss.expected:.2f} ({loss.low:.2f} to {loss.high:.2f}).")
    warnings = ("nanogpt_smaller", "nanogpt_never", "fine_tune", "little_text", "long", "long_alone")
    said += [english.note(code, numbers) for code, numbers in notes(found) if code in warnings]
    return said


def check_target(path: str, *, overwrite: bool) -> None:
    """Check that a config may be written there, before anything is computed."""
    if os.path.isdir(path):
        raise InputError("--write {path}: is a directory", path=path)
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise InputError("--write {path}: no such directory", path=path)
    if os.path.lexists(path) and not overwrite:
        raise InputError("--write {path}: already exists; --overwrite replaces it", path=path)


def write_config(path: str, text: str, *, overwrite: bool) -> None:
    """Write everything or nothing."""
    try:
        with atomic_file(Path(os.path.realpath(path)), overwrite=overwrite, durable=False) as file:
            file.write(text.encode())
    except OSError as error:
        raise InputError("--write {path}: {reason}", path=path, reason=reason_of(error)) from None
