"""The languages and their number formats, without a locale database: start-up time matters, and there are only four.

To add a language, add its number format here and its catalogue in locale/; everything else uses `LANGUAGES`, except for
`nanopace --help`, which imports nothing.

Tests compare every format with Babel, which knows them all but takes too long to import for a terminal report.
"""

from __future__ import annotations

import math
import re

from nanopace.record import Record

NARROW = "\u202f"  # groups thousands in French
FIXED = "\u00a0"  # a no-break space, between a number and its unit

_MOST_MORE = 5  # digits, if two figures must differ
_MOST_THOUSANDS = 4  # divisions by 1000: trillions
_WITHOUT_CENTS = ("JPY", "KRW", "VND", "CLP", "ISK", "PYG", "UGX", "RWF", "XAF", "XOF", "XPF", "₩", "₫", "₲")
_MANY = re.compile(rf"({FIXED}(?:M|Md|Bn|B))[ {FIXED}](tokens|paramètres|parámetros)\b")


class NumberForm(Record):
    """The number format of a language."""

    point: str
    group: str
    group_from: int = 4  # group numbers with at least this many digits before the point
    before_percent: str = FIXED
    short: tuple[str, str, str, str] = ("k", "M", "B", "T")  # thousand, million, 10^9, 10^12
    counts_in_millions: bool = False  # 10^9 is a thousand millions and has no word of its own
    byte: str = "B"
    currency_first: bool = False  # $2.49 rather than 2,49 $


FORMS = {
    "en": NumberForm(point=".", group=",", before_percent="", currency_first=True),
    "de": NumberForm(point=",", group=".", short=("k", f"{FIXED}Mio.", f"{FIXED}Mrd.", f"{FIXED}Bio.")),
    "fr": NumberForm(point=",", group=NARROW, short=(f"{FIXED}k", f"{FIXED}M", f"{FIXED}Md", f"{FIXED}Bn"), byte="o"),
    "es": NumberForm(
        point=",",
        group=".",
        group_from=5,
        short=(f"{FIXED}k", f"{FIXED}M", f"{FIXED}M", f"{FIXED}B"),
        counts_in_millions=True,
    ),
}

LANGUAGES = tuple(FORMS)


def decimal(x: float, form: NumberForm, digits: int | None = None) -> str:
    """`x` with `digits` decimals; without `digits`, as short as six significant digits allow."""
    if not math.isfinite(x):
        return "nan" if math.isnan(x) else ("∞" if x > 0 else "-∞")
    if digits is None:
        digits = 0 if isinstance(x, int) else _digits_needed(x)
    plain = f"{x:.{digits}f}"
    sign, plain = ("-", plain[1:]) if plain.startswith("-") else ("", plain)
    if not plain.strip("0."):
        sign = ""  # no minus sign if it rounds to zero
    whole, _, rest = plain.partition(".")
    if len(whole) >= form.group_from:
        whole = f"{int(whole):,}".replace(",", form.group)
    return f"{sign}{whole}{form.point}{rest}" if rest else f"{sign}{whole}"


def _digits_needed(x: float) -> int:
    if x == 0:
        return 0
    most = max(0, 5 - math.floor(math.log10(abs(x))))
    shown = f"{x:.{most}f}"
    return len(shown.rstrip("0").partition(".")[2]) if "." in shown else 0


def significant(x: float, form: NumberForm, digits: int = 3) -> str:
    """`x` with that many significant digits, but always with all digits before the point."""
    if x == 0 or not math.isfinite(x):
        return decimal(x, form, 0)
    after = digits - 1 - math.floor(math.log10(abs(x)))
    # 9.996 with three significant digits is 10.0, not 10.00.
    after = digits - 1 - math.floor(math.log10(abs(round(x, after)) or abs(x)))
    return decimal(x, form, max(0, after))


def percent(fraction: float, form: NumberForm, digits: int = 1, *, signed: bool = False) -> str:
    """A fraction as a percentage; `signed` also writes a plus sign."""
    shown = decimal(fraction * 100, form, digits)
    plus = "+" if signed and fraction > 0 and shown.strip("0.,") else ""
    return f"{plus}{shown}{form.before_percent}%"


def shortened(x: float, form: NumberForm, digits: int = 1) -> str:
    """A large count in short form: 134.1k, 40.6M, 2.4B (with the language's own suffix)."""
    scaled, thousands = _scaled(x, digits, len(form.short))
    if thousands == 0:
        return decimal(x, form, 0 if float(x).is_integer() else digits)
    if thousands == 3 and form.counts_in_millions:
        return decimal(x / 1e6, form, max(0, digits - 3)) + form.short[1]
    return decimal(scaled, form, digits) + form.short[thousands - 1]


def more_digits(a: float, b: float, usual: int) -> int:
    """How many more decimals than usual show the difference of two figures, if it is small: the last digit is then
    worth at most half of that difference."""
    largest, apart = max(abs(a), abs(b)), abs(a - b)
    if not apart or not math.isfinite(apart / largest):
        return 0
    _, thousands = _scaled(largest, 1, _MOST_THOUSANDS)
    return max(0, min(_MOST_MORE, math.ceil(math.log10(2 * 1000**thousands / apart)) - usual))


class InForm:
    """A number in a message. Where the template groups or rounds it, as in {count:,} or {ms:.1f}, it has the
    language's form; else it is as somebody would type it."""

    __slots__ = ("_form", "_x")

    def __init__(self, x: float, form: NumberForm) -> None:
        self._x, self._form = x, form

    def __format__(self, spec: str) -> str:
        plain = format(self._x, spec)
        if not {",", "."} & {*spec} or not math.isfinite(self._x):
            return plain
        percent = "%" if plain.endswith("%") else ""
        whole, _, rest = plain.removesuffix("%").partition(".")
        ungrouped = whole.replace(",", "")
        if "," in whole and len(ungrouped.lstrip("-+")) >= self._form.group_from:
            ungrouped = whole.replace(",", self._form.group)
        point = self._form.point if rest else ""
        return f"{ungrouped}{point}{rest}{percent and self._form.before_percent}{percent}"


def of_many(text: str, form: NumberForm) -> str:
    """French and Spanish put "de" between a million and what is counted: 2,4 Md de tokens."""
    if form.short[1] != f"{FIXED}M":
        return text
    return _MANY.sub(r"\1 de \2", text)


def money(x: float, form: NumberForm, currency: str | None = None, digits: int | None = None) -> str:
    """An amount of money: $2.49, EUR 2.49 or 2,49 €. Below a tenth, it has two significant digits."""
    shown = decimal(x, form, money_digits(x, currency) if digits is None else digits)
    if currency is None:
        return shown
    if not form.currency_first:
        return f"{shown}{FIXED}{currency}"
    sign, shown = ("-", shown[1:]) if shown.startswith("-") else ("", shown)
    return f"{sign}{currency}{FIXED if currency.isalpha() else ''}{shown}"


def money_digits(x: float, currency: str | None = None) -> int:
    """The decimals of an amount: cents, and as many as two significant digits need if it is less than ten of them."""
    if abs(x) >= 100 and currency in _WITHOUT_CENTS:
        return 0
    return 2 if abs(x) >= 0.095 or not math.isfinite(x) or x == 0 else 1 - math.floor(math.log10(abs(x)))


def size(x: float, form: NumberForm, unit: str, digits: int | None = None) -> str:
    """An amount of memory with its unit: 12 GB, or 12 Go in French."""
    return f"{decimal(x, form, digits)}{FIXED}{unit.removesuffix('B')}{form.byte}"


def mass(kg: float, form: NumberForm) -> str:
    """A mass with its unit: 63 g, 1.2 kg, 3.4 t."""
    amount, unit = (kg * 1000, "g") if kg < 0.9995 else (kg, "kg") if kg < 999.5 else (kg / 1000, "t")
    return f"{significant(amount, form)}{FIXED}{unit}"


def with_prefix(x: float, form: NumberForm, unit: str) -> str:
    """An amount of a unit with its SI prefix: 854.8 MFLOP."""
    prefixes = ("", "k", "M", "G", "T", "P", "E", "Z")
    scaled, thousands = _scaled(x, 1, len(prefixes) - 1)
    return f"{decimal(scaled, form, 1)}{FIXED}{prefixes[thousands]}{unit}"


def _scaled(x: float, digits: int, most: int) -> tuple[float, int]:
    """Divide `x` by 1000 until it prints below 1000, at most `most` times; return it and the number of divisions."""
    thousands = 0
    while thousands < most and abs(x) >= 1000 - 0.5 * 10**-digits:
        x, thousands = x / 1000, thousands + 1
    return x, thousands
