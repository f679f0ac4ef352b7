"""Our numbers compared with Babel's, which knows every language's format."""

from __future__ import annotations

import math

import pytest
from babel.numbers import format_currency, format_decimal, format_percent
from hypothesis import given
from hypothesis import strategies as st

from nanopace.wording.catalog import UNKNOWN, Words, words
from nanopace.wording.numbers import FORMS, LANGUAGES, decimal, money, percent, shortened, significant

VALUES = [0, 1, 12, 999, 1000, 1234, 9999, 10_000, 12_345, 999_999, 1_234_567, 10**9, 123_456_789_012]


def babel_decimal(x: float, language: str, digits: int) -> str:
    # Babel groups four digits in Spanish, where CLDR asks for five (minimumGroupingDigits = 2).
    grouped = not (language == "es" and abs(round(x, digits)) < 10_000)
    pattern = ("#,##0" if grouped else "0") + ("." + "0" * digits if digits else "")
    return format_decimal(x, format=pattern, locale=language)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("x", VALUES)
@pytest.mark.parametrize("digits", [0, 1, 2, 4])
def test_decimals_are_babels(language: str, x: int, digits: int) -> None:
    for value in (x, -x, x + 0.3):
        value = round(value, digits)
        assert decimal(value, FORMS[language], digits) == babel_decimal(value, language, digits)


@given(
    st.floats(min_value=-1e10, max_value=1e10),
    st.integers(min_value=0, max_value=4),
    st.sampled_from(LANGUAGES),
)
def test_any_decimal_is_babels(x: float, digits: int, language: str) -> None:
    rounded = float(f"{x:.{digits}f}") + 0.0  # zero has no sign here
    assert decimal(rounded, FORMS[language], digits) == babel_decimal(rounded or 0.0, language, digits)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("fraction", [0, 0.004, 0.062, 0.1206, 0.5, 1, 1.63, 9.5])
def test_percentages_are_babels(language: str, fraction: float) -> None:
    assert percent(fraction, FORMS[language]) == format_percent(
        fraction, "#,##0.0" + _percent(language), locale=language
    )


def _percent(language: str) -> str:
    return "%" if language == "en" else "\u00a0%"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("x", [0.35, 1, 2.5, 999.99, 12_345.678, 1_234_567.8, -2.49])
@pytest.mark.parametrize(("sign", "currency"), [("€", "EUR"), ("EUR", "EUR"), ("CHF", "CHF")])
def test_money_is_babels(language: str, x: float, sign: str, currency: str) -> None:
    code = "¤¤" if sign == currency else "¤"
    gap = "\u00a0" if sign == currency else ""
    pattern = f"{code}{gap}#,##0.00" if language == "en" else f"#,##0.00\u00a0{code}"
    assert money(x, FORMS[language], sign) == format_currency(x, currency, pattern, locale=language)


def test_small_money_shows_two_digits() -> None:
    english = FORMS["en"]
    shown = [money(x, english) for x in (0, 0.1, 0.0949, 0.012345, 0.00037, 0.0951, 1234.5)]
    assert shown == ["0.00", "0.10", "0.095", "0.012", "0.00037", "0.10", "1,234.50"]
    assert money(12_345.6, english, "JPY") == "JPY\u00a012,346"
    assert money(12.34, english, "JPY") == "JPY\u00a012.34"
    assert money(0.001, english, "$", 2) == "$0.00"
    assert money(-0.001, english, "$", 2) == "$0.00"


@pytest.mark.parametrize(
    ("kg", "shown"),
    [
        (0.0634, "63.4 g"),
        (0.9994, "999 g"),
        (0.9996, "1.00 kg"),
        (12.34, "12.3 kg"),
        (999.6, "1.00 t"),
        (None, UNKNOWN),
    ],
)
def test_co2_has_a_fitting_unit(kg: float | None, shown: str) -> None:
    assert words("en").co2(kg).replace("\u00a0", " ") == shown


def test_french_has_its_own_spaces() -> None:
    assert decimal(1234.5, FORMS["fr"], 1) == "1\u202f234,5"
    assert percent(0.062, FORMS["fr"]) == "6,2\u00a0%"


@given(st.floats(min_value=1e-9, max_value=1e9), st.sampled_from(LANGUAGES))
def test_significant_digits_keep_the_value(x: float, language: str) -> None:
    form = FORMS[language]
    shown = significant(x, form).replace(form.group, "").replace(form.point, ".")
    assert math.isclose(float(shown), x, rel_tol=0.0051)


@pytest.mark.parametrize(
    ("x", "shown"),
    [(0, "0"), (999, "999"), (134_111, "134.1k"), (999_960, "1.0M"), (123_590_000, "123.6M"), (2.36e9, "2.4B")],
)
def test_large_counts_in_short(x: float, shown: str) -> None:
    assert shortened(x, FORMS["en"]) == shown


@pytest.mark.parametrize(
    ("language", "shown"),
    [
        ("en", "134.1k tokens/s, 123.6M tokens, 2.4B tokens, 12.5B parameters"),
        ("de", "134,1k Tokens/s, 123,6 Mio. Tokens, 2,4 Mrd. Tokens, 12,5 Mrd. Parameter"),
        ("fr", "134,1 k tokens/s, 123,6 M de tokens, 2,4 Md de tokens, 12,5 Md de paramètres"),
        ("es", "134,1 k tokens/s, 123,6 M de tokens, 2360 M de tokens, 12.500 M de parámetros"),
    ],
)
def test_what_is_counted_in_millions_has_the_form_of_the_language(language: str, shown: str) -> None:
    says = words(language)
    said = [says.text("{tokens} tokens/s", tokens=says.si(134_111))]
    said += [says.text("{tokens} tokens", tokens=says.si(count)) for count in (123_590_000, 2.36e9)]
    said.append(
        says.text("{weights} parameters in all", weights=says.si(12.5e9)).rsplit(" ", 2 if language != "de" else 1)[0]
    )
    assert ", ".join(said).replace("\u00a0", " ") == shown


def test_units_of_memory_have_the_form_of_the_language() -> None:
    assert words("fr").size(11.5, "GiB") == "11,5\u00a0Gio"
    assert words("de").size(12.87, "MB") == "12,87\u00a0MB"
    assert words("en").size(None) == UNKNOWN


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 ms"), (0.0012, "1.20 ms"), (0.16924, "169 ms"), (0.467, "0.47 s"), (0.996, "1.00 s"), (5.136, "5.14 s"),
        (15.28, "15.3 s"), (59.96, "1 min 0 s"), (221, "3 min 41 s"), (3599.7, "1 h 0 min"), (5000, "1 h 23 min"),
        (10_799, "3.0 h"), (7.8 * 3600, "7.8 h"), (86_399, "1 d 0 h"), (183_600, "2 d 3 h"), (-5.136, "-5.14 s"),
    ],
)  # fmt: skip
def test_durations(seconds: float, shown: str) -> None:
    assert words("en").duration(seconds).replace("\u00a0", " ") == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (5.136, "5.1 s"), (59.4, "59 s"), (59.6, "1 min"), (902, "15 min"), (3569, "59 min"), (3571, "1.0 h"),
        (8784, "2.4 h"), (86_100, "23.9 h"), (86_399, "1 d 0 h"), (183_600, "2 d 3 h"),
    ],
)  # fmt: skip
def test_rough_durations(seconds: float, shown: str) -> None:
    assert words("en").rough_duration(seconds).replace("\u00a0", " ") == shown


@given(st.floats(min_value=60, max_value=1e8))
def test_a_smaller_unit_never_reaches_the_larger(seconds: float) -> None:
    shown = words("en").duration(seconds).replace("\u00a0", " ").split()
    if len(shown) == 4:
        _, large, rest, _ = shown
        assert int(rest) < {"min": 60, "h": 60, "d": 24}[large]


@pytest.mark.parametrize(("language", "shown"), [("de", "7,8 h"), ("fr", "7,8 h"), ("es", "7,8 h")])
def test_durations_in_other_languages(language: str, shown: str) -> None:
    assert words(language).duration(7.8 * 3600).replace("\u00a0", " ") == shown


@pytest.mark.parametrize(
    "show",
    [
        *(Words.number, Words.count, Words.percent, Words.si, Words.flops, Words.tflops, Words.ms, Words.duration),
        Words.rough_duration,
    ],
)
def test_unknown_is_a_dash(show: object) -> None:
    assert callable(show)
    assert show(words("en"), None) == UNKNOWN


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("overhead_share", 0.062, "6.2%"), ("steady_printed", 0.1206, "12.06%"), ("card", 0.823, "82%"),
        ("change_share", 0.25, "+25.0%"), ("before_ms", 3909.8, "3.91 s"), ("each_s", 5.136, "5.14 s"),
        ("card_tflops", 58.3, "58.3 TFLOP/s"), ("best_val", 3.5636, "3.5636"), ("to_interval", 2000, "2000"),
        ("iteration", 20_000, "20,000"), ("tokens", 2.36e9, "2.36B"), ("tokens_per_s", 134_111.0, "134.1k"),
        ("card_name", "NVIDIA GeForce RTX 4070", "RTX 4070"), ("noise_factor", math.sqrt(2), "1.4"),
        ("interval", None, "unknown"), ("energy_kwh", 0.00258, "0.00258 kWh"), ("mean_watts", 312.4, "312 W"),
        ("highest_celsius", 89.0, "89 °C"), ("median_mhz", 2475.0, "2,475 MHz"),
    ],
)  # fmt: skip
def test_a_finding_s_number_has_the_form_of_its_name(name: str, value: object, shown: str) -> None:
    assert words("en").value(name, value).replace("\u00a0", " ") == shown


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(7.764, "7.76 ms"), (169.24, "169.2 ms"), (999.9, "999.9 ms"), (999.96, "1.00 s"), (9349.8, "9.35 s"),
     (75_000, "75.00 s")],
)  # fmt: skip
def test_a_step_of_seconds_is_told_in_seconds(ms: float, shown: str) -> None:
    assert words("en").ms(ms).replace("\u00a0", " ") == shown


@pytest.mark.parametrize(
    ("name", "a", "b", "shown"),
    [
        ("sooner_tokens", 8.21e6, 8.24e6, ("8.21M", "8.24M")),
        ("sooner_tokens", 8.2e6, 9.1e6, ("8.2M", "9.1M")),
        ("sooner_tokens", 8.2e6, 8.2e6, ("8.2M", "8.2M")),
        ("faster_ms", 1005.1, 1014.0, ("1.005 s", "1.014 s")),
        ("before_ms", 999.0, 1100.0, ("999.0 ms", "1.10 s")),
        ("slower_tokens_per_s", 1_246_400.0, 1_256_600.0, ("1.246M", "1.257M")),  # 0.8%, not 8%
        ("slower_tokens_per_s", 56_100.0, 134_100.0, ("56.1k", "134.1k")),
        ("new_ms", 0.0, 0.0, ("0.00 ms", "0.00 ms")),
    ],
)
def test_numbers_that_differ_are_seen_to_differ(name: str, a: float, b: float, shown: tuple[str, str]) -> None:
    assert tuple(each.replace("\u00a0", " ") for each in words("en").apart(name, a, b)) == shown


def test_a_sentence_tells_its_two_numbers_apart() -> None:
    numbers = {"iteration": 500, "before_ms": 1005.1, "after_ms": 1014.0, "change_share": 0.009}
    assert "1.014 s instead of 1.005 s" in words("en").finding("level_shift", numbers).replace("\u00a0", " ")


def test_a_loss_has_its_error_beside_it_where_that_is_known() -> None:
    assert words("en").loss(3.28412, 0.0031).replace("\u00a0", " ") == "3.2841 ±0.0031"
    assert words("de").loss(3.28412) == "3,2841"
    assert words("en").loss(None, 0.1) == UNKNOWN


def test_what_is_no_number() -> None:
    assert [decimal(x, FORMS["de"]) for x in (math.nan, math.inf, -math.inf)] == ["nan", "∞", "-∞"]
    assert [decimal(x, FORMS["en"]) for x in (0.0006, 0.00001, 3.5, 0.0, 524_288.0)] == [
        "0.0006", "0.00001", "3.5", "0", "524,288",
    ]  # fmt: skip
