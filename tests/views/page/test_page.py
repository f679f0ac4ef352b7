"""The page: self-contained, says what the terminal says, and a log's contents stay inert."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanopace.diagnosis.codes import FINDINGS
from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.comparison import Change, Comparison
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Curves, Diagnosis, Finding, SlowRow
from nanopace.run import Fact
from nanopace.sources.runs import open_runs
from nanopace.views.page.page import MOST_SLOW_ROWS, Made, compare_page, explain_page, explained_run
from nanopace.views.page.render import ROOM, headings, templates
from nanopace.views.report import SECTIONS
from nanopace.views.sections import Explained
from nanopace.views.terminal.report import print_report
from nanopace.wording.catalog import LANGUAGES, words

EXAMPLES = Path(__file__).parents[3] / "examples"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e<!--\u2028'\"&amp;.log"


class Seen(HTMLParser):
    """A page as a browser would see it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._inside: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self._inside[-1:] == ["script"]:
            self.scripts[-1] += data
        elif self._inside[-1:] != ["style"]:
            self.text += data

    def with_tag(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]

    @property
    def data(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.scripts[0])
        return found


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def run() -> Diagnosis:
    return diagnose(open_runs(EXAMPLES / "slow-rows.log")[0])


@pytest.fixture(scope="module")
def pair() -> Comparison:
    narrow = open_runs(EXAMPLES / "narrow.log", config=EXAMPLES / "narrow.py", gpu="RTX 4070")[0]
    wide = open_runs(EXAMPLES / "wide-header.log", gpu="RTX 4070")[0]
    return compare(diagnose(narrow), diagnose(wide))


# --- complete in itself ----------------------------------------------------------------------------------------------


def test_nothing_is_loaded(run: Diagnosis, pair: Comparison) -> None:
    for page in (explain_page([run], words("en")), compare_page([pair], words("en"))):
        seen = Seen(page)
        policy = next(meta for meta in seen.with_tag("meta") if meta.get("http-equiv") == "Content-Security-Policy")
        assert (policy["content"] or "").startswith("default-src 'none'; style-src 'unsafe-inline'; script-src")
        assert not seen.with_tag("link")
        assert all(attributes.keys() <= {"type", "id"} for attributes in seen.with_tag("script"))
        for _, attributes in seen.tags:
            assert not attributes.keys() & {"src", "srcset", "action", "background", "poster"}
            assert (attributes.get("href") or "#").startswith("#")
        styles = page[: page.index("</head>")]
        assert "url(" not in styles
        assert "@import" not in styles


def test_the_licence_of_uplot_goes_with_it() -> None:
    assert "MIT License" in (ROOM / "assets" / "LICENSE.uplot").read_text("utf-8")
    assert "uPlot (v1.6.32)" in (ROOM / "assets" / "uPlot.iife.min.js").read_text("utf-8")


def test_it_is_accessible(run: Diagnosis, pair: Comparison) -> None:
    for page in (explain_page([run, run], words("en")), compare_page([pair, pair], words("en"))):
        seen = Seen(page)
        assert len(seen.with_tag("main")) == 1
        assert len(seen.with_tag("caption")) == len(seen.with_tag("table"))
        assert all(attributes.get("scope") for attributes in seen.with_tag("th"))
        assert all(svg.get("aria-label") or svg.get("aria-hidden") for svg in seen.with_tag("svg"))
        ids = [attributes["id"] for _, attributes in seen.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        levels = [int(tag[1]) for tag, _ in seen.tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))


def test_every_part_has_its_place_in_the_address(run: Diagnosis, pair: Comparison) -> None:
    """The live page replaces parts by their ids, and people link to them."""
    made = Made("2026-11-17T23:40:00+00:00", "2026-11-17 23:40", "nanopace explain")
    for page in (explain_page([run, run], words("en"), made), compare_page([pair, pair], words("en"), made)):
        seen = Seen(page)
        ids = {attributes.get("id") for _, attributes in seen.tags}
        rows = re.compile("#(run-1-)?iteration-[0-9]+")
        links = [link["href"] or "" for link in seen.with_tag("a")]
        assert {link.removeprefix("#") for link in links if not rows.fullmatch(link)} <= ids
        assert all(attributes.get("id") for tag, attributes in seen.tags if tag in ("section", "h1", "h2", "h3"))
        for parent in ("article", "main"):
            assert None not in children_of(page, parent)
    assert "#run-1-iteration-500" in explain_page([run, run], words("en"))


def children_of(page: str, parent: str) -> list[str | None]:
    """The ids of the direct children of all such elements."""
    found: list[str | None] = []
    inside: list[str] = []

    class Children(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if inside[-1:] == [parent]:
                found.append(dict(attrs).get("id"))
            if tag not in ("input", "meta", "wbr", "path", "rect"):
                inside.append(tag)

        def handle_endtag(self, tag: str) -> None:
            if tag in inside:
                while inside.pop() != tag:
                    pass

    Children().feed(page[page.index("<body>") :])
    return found


def test_the_article_of_a_run_can_be_made_alone(run: Diagnosis) -> None:
    alone = (
        templates().get_template("run.html").render(run=explained_run(run, words("en"), {}), say=headings(words("en")))
    )
    assert plain(alone) in plain(explain_page([run], words("en")))


def test_the_same_run_gives_the_same_page(run: Diagnosis) -> None:
    assert explain_page([run], words("en")) == explain_page([run], words("en"))


# --- it says what the terminal says ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_answer_is_the_terminals(run: Diagnosis, lang: str) -> None:
    page = explain_page([run], words(lang))
    assert f'<html lang="{lang}">' in page
    out = io.StringIO()
    print_report([run], words(lang), out=out, width=120, color=False)
    opening = plain(out.getvalue().split("\n\n")[0])
    title, answer = opening.split(words(lang).text("A normal step takes {step}.", step="|").partition("|")[0], 1)
    assert run.source.name in title
    assert answer
    assert answer in plain(Seen(page).text)


def test_every_finding_is_said_once_but_for_what_the_answer_says_in_its_own_words(run: Diagnosis) -> None:
    numbers = {
        code: {name: n + 2 if name not in ("knobs", "missing", "knob") else "n_embd" for n, name in enumerate(names)}
        for code, names in FINDINGS.items()
        if not code.startswith("compare_")
    }
    sectioned = {code for codes in SECTIONS.values() for code in codes}
    findings = tuple(Finding(code, values, advice=code not in sectioned) for code, values in numbers.items())
    plainly = dataclasses.replace(run, findings=findings, facts={})
    text = plain(Seen(explain_page([plainly], words("en"))).text)
    in_the_answer = Explained(plainly, words("en")).report.said
    for finding in findings:
        sentence = plain(words("en").finding(finding.code, finding.numbers))
        times = text.count(sentence) - text.count(f"Try: {sentence}")  # the answer has the best advice, too
        assert times == 1 or (times == 0 and in_the_answer(finding)), finding.code


def test_advice_has_its_saving_and_its_price(run: Diagnosis) -> None:
    advice = [finding for finding in run.findings if finding.advice and finding.saves_s is not None]
    assert advice
    text = plain(Seen(explain_page([dataclasses.replace(run, facts={})], words("en"))).text)
    for finding in advice:
        saving = words("en").duration(finding.saves_s), words("en").percent(finding.saves_share)
        row = [words("en").finding(finding.code, finding.numbers), "Saves {} ({}).".format(*saving)]
        cost = words("en").advice_cost(finding.code, finding.numbers)
        assert plain(" ".join([*row, *([f"Cost: {cost}."] if cost else [])])) in text


def test_what_the_cards_sensors_say_and_the_error_of_a_loss(run: Diagnosis) -> None:
    findings = (Finding("energy", {"energy_kwh": 1.234, "mean_watts": 312.0}),)
    loss = dataclasses.replace(run.loss, best_val=3.2841, best_val_error=0.0031)
    page = explain_page([dataclasses.replace(run, findings=findings, loss=loss)], words("en"))
    text = plain(Seen(page).text)
    assert text.count("The card used 1.23 kWh for this run, 312 W on average.") == 1
    assert "best validation 3.2841 ±0.0031" in text


def test_facts_have_their_origin_and_inferred_ones_a_mark(run: Diagnosis) -> None:
    facts = {"n_embd": Fact(384, "log"), "vocab_size": Fact(50304, "inferred", "first_loss")}
    text = plain(Seen(explain_page([dataclasses.replace(run, facts=facts)], words("en"))).text)
    assert "n_embd 384 from the log" in text
    assert "vocab_size ~50304 inferred: from the untrained model's loss" in text


@pytest.mark.parametrize("lang", LANGUAGES)
def test_settings_are_as_one_types_them_in_every_language(run: Diagnosis, pair: Comparison, lang: str) -> None:
    checksum = "3fa9c1d2e8" + "0" * 54
    facts = {
        "learning_rate": Fact(0.003, "log"),
        "min_lr": Fact(6e-05, "log"),
        "vocab_size": Fact(50304, "log"),
        "grad_clip": Fact(1.0, "log"),
        "compile": Fact(True, "log"),
        "corpus": Fact(checksum, "log"),
        "dataset": Fact("fineweb_edu_of_last_autumn", "log"),
    }
    text = plain(Seen(explain_page([dataclasses.replace(run, facts=facts)], words(lang))).text)
    told = (("learning_rate", "0.003"), ("min_lr", "6e-05"), ("vocab_size", "50304"), ("grad_clip", "1.0"))
    for name, value in (
        *told,
        ("compile", "True"),
        ("corpus", "3fa9c1d2e8…"),
        ("dataset", "fineweb_edu_of_last_autumn"),
    ):
        assert f"{name} {value} " in text
    changed = dataclasses.replace(pair, changed=(Change("learning_rate", 0.003, 0.0006, "log", "inferred"),))
    assert "learning_rate 0.003 ~0.0006" in plain(Seen(compare_page([changed], words(lang))).text)


def test_what_took_next_to_nothing_is_in_the_table_and_not_in_the_strip(run: Diagnosis) -> None:
    total = run.wall.total_s
    wall = dataclasses.replace(run.wall, stall_s=0.00007 * total, restart_s=0.003 * total)
    seen = Seen(explain_page([dataclasses.replace(run, wall=wall)], words("en")))
    drawn = [span["style"] or "" for span in seen.with_tag("span") if "--share" in (span.get("style") or "")]
    assert [style for style in drawn if "--restart)" in style] == ["--share:0.003000;--shade:var(--restart)"]
    assert not any("--stall)" in style for style in drawn)
    assert words("en").phase("stall") in plain(seen.text)


def test_slow_rows_are_links_as_far_as_the_page_holds_them(run: Diagnosis) -> None:
    many = tuple(SlowRow(at, 500.0, 300.0, ("stall",), {"stall": 300.0}) for at in range(MOST_SLOW_ROWS + 3))
    page = explain_page([dataclasses.replace(run, slow_rows=many)], words("en"))
    links = [link["href"] for link in Seen(page).with_tag("a") if (link["href"] or "").startswith("#iteration-")]
    assert links == [f"#iteration-{at}" for at in range(MOST_SLOW_ROWS)]
    assert "3 more rows are in the JSON." in page
    assert "Every slow row (2,003)" in page


def test_the_page_says_when_a_mark_stands_for_several_rows(run: Diagnosis) -> None:
    assert "Each mark is one row of the log" in explain_page([run], words("en"))
    long = dataclasses.replace(run, source=dataclasses.replace(run.source, rows=1_000_000))
    assert "A mark may stand for several rows" in explain_page([long], words("en"))


def test_a_comparison_opens_with_the_verdict_and_has_all_tables(pair: Comparison) -> None:
    seen = Seen(compare_page([pair], words("en")))
    text = plain(seen.text)
    assert re.search(r"B is [\d.]+% slower than A: ~?[\d.]+k against", text)
    assert text.index("slower than A") < text.index("The runs overlaid")
    for change in pair.changed:
        assert change.knob in text
    assert len(pair.equal_time) > 3
    for at in (*pair.equal_time, *pair.equal_tokens, *pair.equal_flops):
        assert words("en").number(at.b, 4) in text
    charts = seen.data["charts"]
    assert isinstance(charts, dict)
    overlaid = {"all-times", "all-loss-tokens", "all-loss-seconds", "all-throughput", "all-mfu"}
    assert set(charts) == overlaid | {"all-arrival-seconds", "all-arrival-tokens"}


def test_three_runs(pair: Comparison) -> None:
    text = plain(Seen(compare_page([pair, pair], words("en"))).text)
    assert "B against A" in text
    assert "C against A" in text


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_speaks_one_language(run: Diagnosis, pair: Comparison, lang: str) -> None:
    for page in (explain_page([run], words(lang)), compare_page([pair], words(lang))):
        assert Seen(page).data["lang"] == lang
    step = words(lang).ms(run.step.median_ms)
    assert ("," if lang != "en" else ".") in step
    assert step in Seen(explain_page([run], words(lang))).text


def test_templates_have_no_words_of_their_own() -> None:
    for template in (ROOM / "templates").iterdir():
        source = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", "", template.read_text("utf-8"), flags=re.DOTALL)
        source = re.sub(r"<[^>]*>|^ [\w-]+=.*$", " ", source, flags=re.MULTILINE)
        assert set(re.findall(r"[a-z]{2,}", source, re.IGNORECASE)) <= {"nanopace"}, template.name


# --- hostile and strange input ---------------------------------------------------------------------------------------


def poisoned(run: Diagnosis) -> Diagnosis:
    return dataclasses.replace(
        run,
        source=dataclasses.replace(run.source, name=HOSTILE),
        facts={**run.facts, "gpu": Fact(HOSTILE, "log"), HOSTILE: Fact(HOSTILE, "log")},
        mfu=dataclasses.replace(run.mfu, card=0.5, card_name=HOSTILE, card_tflops=100.0, printed_peak_tflops=312.0),
        findings=(Finding("conflict", {"knob": HOSTILE, "used": HOSTILE, "other": HOSTILE}),),
    )


def test_what_a_log_holds_cannot_act(run: Diagnosis, pair: Comparison) -> None:
    evil = dataclasses.replace(pair, a=poisoned(pair.a), b=poisoned(pair.b))
    for page, clean in (
        (explain_page([poisoned(run)], words("en")), explain_page([run], words("en"))),
        (compare_page([evil], words("en")), compare_page([pair], words("en"))),
    ):
        seen, harmless = Seen(page), Seen(clean)
        assert seen.scripts[1:] == harmless.scripts[1:]
        assert not seen.with_tag("img")
        assert "<script>alert(1)" in seen.text
        assert not set("\x1b\u202e") & set(page)
        assert not re.search(r"[<>&\u2028\u2029]", seen.scripts[0])


def test_the_data_survives_its_escaping(run: Diagnosis) -> None:
    charts = Seen(explain_page([poisoned(run)], words("en"))).data["charts"]
    assert isinstance(charts, dict)
    labels = [series["label"] for series in charts["run0-mfu"]["series"]]
    assert any("</script><script>alert(1)" in label and "&amp;" in label for label in labels)


def test_a_name_that_is_no_text_can_be_written(run: Diagnosis) -> None:
    odd = dataclasses.replace(run, source=dataclasses.replace(run.source, name="caf\udce9.log"))
    assert b"caf?.log" in explain_page([odd], words("en")).encode("utf-8")


numbers = st.floats(allow_nan=True) | st.none()
points = st.lists(st.tuples(st.integers(0, 10**9), st.floats(), numbers), max_size=4)


@st.composite
def strange_curves(draw: st.DrawFn) -> Curves:
    rows, evaluations = draw(points), draw(points)
    return Curves(
        row_iteration=tuple(row[0] for row in rows),
        row_ms=tuple(row[1] for row in rows),
        row_cause=tuple(draw(st.sampled_from([None, "stall"])) for _ in rows),
        row_loss=tuple(row[2] for row in rows),
        row_mfu_printed=tuple(row[2] for row in rows),
        row_mfu_true=tuple(row[2] for row in rows),
        row_seconds=tuple(row[1] for row in rows),
        eval_iteration=tuple(row[0] for row in evaluations),
        eval_seconds=tuple(row[1] for row in evaluations),
        eval_train=tuple(row[2] for row in evaluations),
        eval_val=tuple(row[2] for row in evaluations),
        eval_saved=(True,) * len(evaluations),
    )


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(curves=strange_curves())
def test_any_curve_can_be_written(run: Diagnosis, curves: Curves) -> None:
    charts = Seen(explain_page([dataclasses.replace(run, curves=curves)], words("en"))).data["charts"]
    assert isinstance(charts, dict)
    for chart in charts.values():
        for series in chart["series"]:
            assert len(series["x"]) == len(series["y"])
            assert series["x"] == sorted(series["x"])


def test_what_is_unknown_is_left_out(run: Diagnosis) -> None:
    def unknown(part: object) -> dict[str, None]:
        return {field.name: None for field in dataclasses.fields(part) if "None" in str(field.type)}  # type: ignore[arg-type]

    parts = ("source", "evaluations", "checkpoints", "wall", "ahead", "throughput", "mfu", "model", "loss", "step")
    known = {name: getattr(run, name) for name in parts}
    bare = {name: dataclasses.replace(part, **unknown(part)) for name, part in known.items()}
    poor = dataclasses.replace(run, **bare, startup=None, slow_rows=(), findings=(), facts={}, curves=Curves())
    text = plain(Seen(explain_page([poor], words("en"))).text)
    assert "normal step" in text
    assert "None" not in text
    assert "nan" not in text.replace("nanopace", "").replace("nanoGPT", "")
    pair = compare(poor, poor)
    assert "None" not in plain(Seen(compare_page([pair], words("en"))).text)


# --- colours ---------------------------------------------------------------------------------------------------------

GROUNDS = {"surface", "raised", "text", "muted", "accent", "line", "edge"}
TONES = ("good", "warn", "bad", "quiet")
# How colour-blind people see linear red, green and blue (Machado, Oliveira and Fernandes 2009, full severity).
BLINDNESS = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}


def palettes() -> list[dict[str, str]]:
    """Light, dark by the system's setting, and dark by the reader's choice."""
    blocks = re.findall(r":root[^{]*\{([^}]*)\}", (ROOM / "assets" / "report.css").read_text("utf-8"))
    found = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks]
    return [each for each in found if each]


def linear(colour: str) -> list[float]:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(rgb: list[float]) -> list[float]:
    """In a space where distances match perception (CIELAB, D65)."""
    rows = ((0.4124, 0.3576, 0.1805, 0.9505), (0.2126, 0.7152, 0.0722, 1.0), (0.0193, 0.1192, 0.9505, 1.089))
    scaled = [max(0.0, r * rgb[0] + g * rgb[1] + b * rgb[2]) / white for r, g, b, white in rows]
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in scaled)
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


def test_dark_is_dark_whoever_asks_for_it() -> None:
    light, by_system, by_reader = palettes()
    assert by_system == by_reader
    assert by_system.keys() == light.keys()


@pytest.mark.parametrize("colours", palettes()[:2], ids=["light", "dark"])
def test_every_colour_can_be_told_from_the_ground(colours: dict[str, str]) -> None:
    for name in ("text", "muted", "accent", *TONES):
        for ground in ("surface", "raised"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    assert contrast(colours["edge"], colours["surface"]) >= 3
    marks = set(colours) - GROUNDS
    assert len(marks) > 12
    for name in marks:
        assert contrast(colours[name], colours["surface"]) >= 3, name


@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize("colours", palettes()[:2], ids=["light", "dark"])
def test_colours_that_stand_together_differ_for_colour_blind_eyes(colours: dict[str, str], blindness: str) -> None:
    def seen(name: str) -> list[float]:
        rgb = linear(colours[name])
        return lab([sum(a * b for a, b in zip(row, rgb, strict=True)) for row in BLINDNESS[blindness]])

    causes = ("training", "evaluation", "checkpoint", "compile", "stall", "restart")
    runs = tuple(f"run-{number}" for number in range(1, 7))
    for group in (causes, runs, ("good", "warn"), ("good", "bad")):
        for one, other in itertools.combinations(group, 2):
            assert math.dist(seen(one), seen(other)) >= 20, (one, other)
