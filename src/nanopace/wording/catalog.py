"""The object that views use for all text: a language with its catalogue and its number format.

A catalogue maps English text to another language (gettext; `make catalogs` collects and compiles them). English needs
no file. Views write their text in English and pass it through `Words.text`, which the collector recognises as a
keyword.
"""

from __future__ import annotations

import gettext
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nanopace.errors import Message, NanopaceError
from nanopace.run import Fact
from nanopace.wording import labels, numbers
from nanopace.wording.advice import ADVICE_COST
from nanopace.wording.languages import pick_language
from nanopace.wording.numbers import FIXED
from nanopace.wording.printable import one_line
from nanopace.wording.sentences import SENTENCES
from nanopace.wording.template import Sentence
from nanopace.wording.utilisation import CARD_UNKNOWN

if TYPE_CHECKING:
    from nanopace.wording.from_english import Reader

LOCALE = Path(__file__).parent / "locale"
UNKNOWN = "–"  # in a table, where there is no room for a sentence


def words(lang: str | None = None) -> Words:
    """The words of a language; English by default."""
    return Words(pick_language(lang, {}))


def _labels(names: Mapping[str, str]) -> Callable[[Words, str], str]:
    """A method that translates the label of a code."""
    return lambda words, code: words.text(names[code])


class Words:
    def __init__(self, lang: str) -> None:
        self.lang = lang
        self._form = numbers.FORMS[lang]
        self._catalog = gettext.NullTranslations()
        self._reader: Reader | None = None
        if lang != "en":
            self._catalog = gettext.translation("nanopace", LOCALE, languages=[lang])

    # --- texts -------------------------------------------------------------------------------------------------------

    def text(self, msgid: str, **values: object) -> str:
        """A translated text with its values filled in: strings unchanged, numbers in the language's format."""
        shown = {name: self._plain(value) for name, value in values.items()}
        return numbers.of_many(self._catalog.gettext(msgid).format(**shown), self._form)

    def plural(self, one: str, many: str, n: int, **values: object) -> str:
        """A text that depends on a number, which fills {n}."""
        shown = {name: self._plain(value) for name, value in values.items()}
        return numbers.of_many(self._catalog.ngettext(one, many, n).format(n=self.count(n), **shown), self._form)

    def finding(self, code: str, values: Mapping[str, object]) -> str:
        """The sentence of a finding, with its numbers filled in."""
        if values.get("elsewhere"):
            from nanopace.wording.other_trainers import ELSEWHERE

            return self.say(ELSEWHERE[code], values)
        missing = str(values.get("missing")).split(", ")
        if code == "mfu_unknown" and "gpu" in missing:
            knobs = ", ".join(name for name in missing if name != "gpu")
            return self.say(CARD_UNKNOWN, {"knobs": knobs or None, "flag": labels.GPU_FLAG})
        return self.say(SENTENCES[code], values)

    def advice_cost(self, code: str, values: Mapping[str, object]) -> str | None:
        """What following a piece of advice costs; None if it costs nothing or the finding is not advice."""
        cost = ADVICE_COST.get(code)
        if values.get("elsewhere"):
            from nanopace.wording.other_trainers import COST_ELSEWHERE

            cost = COST_ELSEWHERE.get(code, cost)
        return None if cost is None else self.say(cost, values)

    def reason(self, code: str, values: Mapping[str, object]) -> str:
        """Why a knob has its recommended value."""
        from nanopace.wording.reasons import REASONS  # only recommend needs it

        if isinstance(steps := values.get("steps"), str):
            values = {**values, "steps": ", ".join(map(self.memory_step, steps.split(", ")))}
        return self.say(REASONS[code], values)

    def note(self, code: str, values: Mapping[str, object]) -> str:
        from nanopace.wording.reasons import NOTES

        return self.say(NOTES[code], values)

    def memory_step(self, name: str) -> str:
        """What a step of the memory ladder saves."""
        from nanopace.wording.reasons import MEMORY_STEPS

        return self.text(MEMORY_STEPS[name])

    def link(self, code: str) -> str:
        from nanopace.wording.reasons import LINKS

        return self.text(LINKS[code])

    def help(self, text: str) -> str:
        """A text from --help or argparse, which fills in the values itself."""
        return self._catalog.gettext(text)

    def error(self, error: NanopaceError) -> str:
        """The message of an error, on one line and safe to print."""
        return one_line(self._translated(error))

    def message(self, text: str) -> str:
        """A message from the trainer, on one line and safe to print; unchanged if it is not a `Message`."""
        return one_line(self._translated(text) if isinstance(text, Message) else text)

    def from_english(self, text: str) -> str:
        """What a ledger has of the trainer's reasons and notes; a text that is none of ours as it is."""
        if self.lang == "en":
            return text
        if self._reader is None:
            from nanopace.wording.from_english import Reader  # only who has a ledger pays for it

            self._reader = Reader(self._catalog._catalog)  # type: ignore[attr-defined]
        message = self._reader.message(text)
        return text if message is None else self._translated(message)

    def _translated(self, said: Message | NanopaceError) -> str:
        """In whose values may be others."""
        values = {name: self._value_of_message(value) for name, value in said.values.items()}
        return numbers.of_many(self._catalog.gettext(said.template).format(**values), self._form)

    def _value_of_message(self, value: object) -> object:
        if isinstance(value, (Message, NanopaceError)):
            return self._translated(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return numbers.InForm(value, self._form)
        return value

    def say(self, sentence: Sentence, values: Mapping[str, object]) -> str:
        """The most specific wording whose values are known, with them filled in."""
        template = sentence.choose(values)
        if template.many is None or template.counted is None:
            said = self._catalog.gettext(template.one)
        else:
            amount = values.get(template.counted)
            n = int(amount) if isinstance(amount, (int, float)) else 2
            said = self._catalog.ngettext(template.one, template.many, n)
        shown = {name: self.value(name, value) for name, value in values.items()}
        return numbers.of_many(said.format(**(shown | self.side_by_side(values))), self._form)

    def side_by_side(self, values: Mapping[str, object]) -> dict[str, str]:
        """The values that a sentence puts side by side, with enough digits to tell them apart."""
        shown = {}
        for name, other in labels.SIDE_BY_SIDE:
            a, b = values.get(name), values.get(other)
            if isinstance(a, (int, float)) and isinstance(b, (int, float)):
                shown[name], shown[other] = self.apart(name, a, b)
        return shown

    # --- labels ------------------------------------------------------------------------------------------------------

    origin_of = _labels(labels.ORIGINS)  # the kind of an origin, without its reason
    part = _labels(labels.PARTS)  # of training or of start-up
    ending = _labels(labels.ENDINGS)  # how a run ended
    verdict = _labels(labels.VERDICTS)  # how busy the card is
    metric = _labels(labels.METRICS)  # what an evaluation measured
    stage = _labels(labels.STAGES)  # of a trainer with several
    clock = _labels(labels.CLOCKS)  # the source of the training time

    def origin(self, fact: Fact) -> str:
        """Where a fact comes from, in a few words."""
        if fact.because is not None:
            return self.text("inferred: {because}", because=self.text(labels.BECAUSE[fact.because]))
        return self.origin_of(fact.origin)

    def cause(self, code: str, format: str | None = None, *, compiles: bool = True) -> str:
        """A cause of a slow row; if known, as it applies to that log format, and to a run that does not compile."""
        return self.text(self._without_compiling(code, format, compiles) or labels.CAUSES[code])

    def phase(self, code: str, format: str | None = None, *, compiles: bool = True) -> str:
        """A phase of the wall clock, such as training, evaluation or suspended; as it applies to that log format."""
        return self.text(self._without_compiling(code, format, compiles) or labels.PHASES[code])

    def _without_compiling(self, code: str, format: str | None, compiles: bool) -> str | None:
        """The label for a trainer that never compiles, or a run that did not; None if the usual one fits."""
        if compiles and format is not None:
            from nanopace.sources.formats.registry import find_format

            compiles = find_format(format).compiles
        return None if compiles else labels.WITHOUT_COMPILING.get(code)

    def format(self, code: str) -> str:
        """The trainer that wrote a log."""
        from nanopace.sources.formats.registry import find_format  # a log has been read by now

        return self.text(labels.FORMATS[code]) if code in labels.FORMATS else find_format(code).trainer

    def fact(self, name: str) -> str:
        """A fact's name: knobs keep theirs, others are translated."""
        return self.text(labels.FACTS[name]) if name in labels.FACTS else name

    def card(self, name: str) -> str:
        """A card's name without the common prefix: RTX 4070."""
        return name.removeprefix("NVIDIA ").removeprefix("GeForce ")

    # --- numbers -----------------------------------------------------------------------------------------------------

    def number(self, x: float | None, digits: int | None = None) -> str:
        """A number with `digits` decimals, or with as few as it needs."""
        return UNKNOWN if x is None else numbers.decimal(x, self._form, digits)

    def significant(self, x: float | None, digits: int = 3) -> str:
        """A number with that many significant digits: 0.0412, 6.01, 169."""
        return UNKNOWN if x is None else numbers.significant(x, self._form, digits)

    def loss(self, x: float | None, error: float | None = None) -> str:
        """A loss, with its standard error if known: 3.2841 ±0.0031."""
        return self.number(x, 4) + ("" if x is None or error is None else f"{FIXED}±{self.number(error, 4)}")

    def factor(self, ratio: float | None) -> str:
        """A ratio as a factor: ×0.42, ×15.50, and ×0.0031 rather than ×0.00; 0 is shown as unknown."""
        if not ratio:
            return UNKNOWN
        small = abs(ratio) < 0.095
        return "×" + (numbers.significant(ratio, self._form, 2) if small else numbers.decimal(ratio, self._form, 2))

    def count(self, n: float | None) -> str:
        """A whole number with grouped thousands."""
        return UNKNOWN if n is None else numbers.decimal(n, self._form, 0)

    def percent(self, fraction: float | None, digits: int = 1, *, signed: bool = False) -> str:
        """A fraction as a percentage: 0.062 is 6.2%."""
        return UNKNOWN if fraction is None else numbers.percent(fraction, self._form, digits, signed=signed)

    def mfu(self, fraction: float | None, digits: int = 2) -> str:
        """A percentage that may be tiny: it always shows at least two significant digits."""
        if fraction and abs(fraction) < 0.0005:
            digits = max(digits, 1 - math.floor(math.log10(abs(fraction) * 100)))
        return self.percent(fraction, digits)

    def si(self, x: float | None, digits: int = 1) -> str:
        """A count in short form: 134.1k."""
        return UNKNOWN if x is None else numbers.shortened(x, self._form, digits)

    def apart(self, name: str, a: float, b: float) -> tuple[str, str]:
        """Two token counts or step times with enough digits to see how far apart they are: 8.21M and 8.24M."""
        in_ms = name.endswith("_ms")
        more = numbers.more_digits(a, b, 1 if not in_ms or 10 <= max(abs(a), abs(b)) < 999.95 else 2)
        if in_ms:
            return self.ms(a, more), self.ms(b, more)
        return self.si(a, digits=1 + more), self.si(b, digits=1 + more)

    def size(self, x: float | None, unit: str = "GB", digits: int | None = None) -> str:
        """An amount of memory or data with its unit, in GB, MB or GiB."""
        return UNKNOWN if x is None else numbers.size(x, self._form, unit, digits)

    def money(self, x: float | None, currency: str | None, digits: int | None = None) -> str:
        """An amount of money, in the currency that was typed: $2.49, 2,49 EUR; without one, 2.49."""
        return UNKNOWN if x is None else numbers.money(x, self._form, currency, digits)

    def co2(self, kg: float | None) -> str:
        return UNKNOWN if kg is None else numbers.mass(kg, self._form)

    def flops(self, x: float | None) -> str:
        """An amount of compute: 854.8 MFLOP."""
        return UNKNOWN if x is None else numbers.with_prefix(x, self._form, "FLOP")

    def tflops(self, x: float | None) -> str:
        """A rate of compute: 58.3 TFLOP/s."""
        return UNKNOWN if x is None else f"{numbers.significant(x, self._form)}{FIXED}TFLOP/s"

    def ms(self, x: float | None, more: int = 0) -> str:
        """A step time, with one format below a second and one above: 169.2 ms, 3.91 s; `more` adds digits."""
        if x is None:
            return UNKNOWN
        if abs(x) >= 999.95:
            return f"{numbers.decimal(x / 1000, self._form, 2 + more)}{FIXED}s"
        return f"{numbers.decimal(x, self._form, (1 if abs(x) >= 10 else 2) + more)}{FIXED}ms"

    def duration(self, seconds: float | None) -> str:
        """A time in a suitable unit: 169 ms, 0.47 s, 5.14 s, 3 min 41 s, 7.8 h, 2 d 3 h."""
        if seconds is None:
            return UNKNOWN
        if seconds < 0:
            return f"-{self.duration(-seconds)}"
        if seconds < 0.19995:
            return f"{numbers.significant(seconds * 1000, self._form)}{FIXED}ms"
        if seconds < 1:  # so that 0.47 s fits next to 5.14 s
            return f"{numbers.decimal(seconds, self._form, 2)}{FIXED}s"
        if seconds < 59.95:
            return f"{numbers.significant(seconds, self._form)}{FIXED}s"
        if seconds < 3599.5:
            return self._two_units(round(seconds), 60, "min", "s")
        hour = self.text("h")
        if seconds < 3 * 3600 - 30:  # minutes still matter
            return self._two_units(round(seconds / 60), 60, hour, "min")
        if seconds < 23.95 * 3600:
            return f"{numbers.decimal(seconds / 3600, self._form, 1)}{FIXED}{hour}"
        return self._two_units(round(seconds / 3600), 24, self.text("d"), hour)

    def rough_duration(self, seconds: float | None) -> str:
        """A time that is only known roughly: 7 s, 15 min, 2.4 h, 2 d 3 h."""
        if seconds is None or seconds < 0 or round(seconds / 3600, 1) >= 24:
            return self.duration(seconds)
        if seconds < 59.5:
            return f"{numbers.significant(seconds, self._form, 2)}{FIXED}s"
        if seconds < 59.5 * 60:
            return f"{self.count(round(seconds / 60))}{FIXED}min"
        return f"{numbers.decimal(seconds / 3600, self._form, 1)}{FIXED}{self.text('h')}"

    def _two_units(self, amount: int, in_one: int, large: str, small: str) -> str:
        many, rest = divmod(amount, in_one)
        return f"{self.count(many)}{FIXED}{large} {rest}{FIXED}{small}"

    def value(self, name: str, value: object) -> str:
        """A finding's number, in the format that its name implies (see diagnosis/codes.py for the names)."""
        if value is None:
            return self.text("unknown")
        if name.endswith("card_name"):
            return self.card(str(value))
        if name.endswith("_metric") and isinstance(value, str):
            return self.text("nats") if value == "loss" else self.metric(value)
        if name == "flag":
            return self.text(str(value))
        if name == "phase" and isinstance(value, str):
            return self.phase(value)
        if name == "shown_by":
            return self.text(labels.COVER_EVIDENCE.get(str(value), str(value)))
        if not isinstance(value, (int, float)) or isinstance(value, bool) or name in labels.KNOB_VALUES:
            return str(value)
        if name.endswith("tokens_per_s") or name == "tokens":
            return self.si(value, digits=2 if name == "tokens" else 1)
        if name.endswith("_tokens") or name == "weights":
            return self.si(value)
        if name.endswith("_s"):
            return self.rough_duration(value) if name.endswith("_about_s") else self.duration(value)
        if name.endswith("_ms"):
            return self.ms(value)
        if name in labels.SIGNED_SHARES:
            return self.percent(value, signed=True)
        if name.endswith("_share"):
            return self.percent(value)
        if name in labels.MFUS:
            return self.mfu(value, 2 if abs(value) < 0.2 else 0 if name.startswith("card") else 1)
        if name.endswith("_tflops"):
            return self.tflops(value)
        if name in labels.LOSSES:
            return self.number(value, 4)
        for ending, (unit, digits) in labels.UNITS.items():
            if name.endswith(ending):
                return f"{numbers.significant(value, self._form, digits)}{FIXED}{unit}"
        if name == "noise":
            return numbers.significant(value, self._form, 2)
        if name == "sooner_ratio":
            return numbers.significant(value, self._form)
        if name in {"ratio", "work_ratio", "noise_factor", "largest_z"}:
            return self.number(round(value, 1))
        return self._plain(value)

    def _plain(self, value: object) -> str:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self.number(value)
        return str(value)
