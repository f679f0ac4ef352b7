from __future__ import annotations

import pytest

from nanopace.sources.unread.quoted import QuotationDetector

from ..nanogpt_logs import WHOLE_LOG
from ..reading import read

README = """\
# tinytrain

A small trainer for people who like to read their code. It fits on one page and needs no framework.

- It trains on one card, and tells you why it was slow.
- It writes a log like this one, which you can explain:

```
step 500: train loss 3.1000, val loss 3.2000
iter 500: loss 3.1500, time 5800.00ms, mfu 12.00%
iter 510: loss 3.1400, time 200.00ms, mfu 12.00%
```

## Installing

Everything that you need is in the file, so that nothing has to be built before you begin.
"""
NOTES = """\
Hello everybody, I have a question about the rows that my run prints every now and then.
They are much slower than all of the others, and I do not know why that is.
Does anybody here know whether this is normal for a card like mine or not?
iter 500: loss 3.1500, time 5800.00ms, mfu 12.00%
iter 510: loss 3.1400, time 200.00ms, mfu 12.00%
Thank you for all of your help with this, and have a nice day.
"""
SAMPLE = "KING: My lord, the people of this town do love you well and wish to see you soon.\n"
WARNING = (
    "/usr/lib/python3/dist-packages/torch/x.py:12: UserWarning: Please use the new way to do this, not the old.\n"
    "  warnings.warn(\n"
)


PROSE, ROW, OTHER = "There are words enough in here.", "iter 1: loss 3.1, time 1.00ms", "x = 1"


@pytest.mark.parametrize(
    ("lines", "quoted"),
    [
        ("ppp rr", True),  # more prose than anything else, and three lines of it before the log
        ("pp rr p", False),
        ("ppp rrr", False),  # not the larger part
        ("pppp rrr", True),
        ("ppp xxx", False),
        ("p`r`pp", True),  # with fences, less of it is enough
        ("p`rpp", False),
        ("`r`ppp", False),  # but some has to stand before the log
        ("p`r`p", False),  # and three lines are the least,
        ("ppp" + 57 * "r" + "`" * 3, False),  # and a twentieth: 3 of 63
        ("ppp" + 55 * "r" + "`" * 2, True),  # 3 of 60
        ("ppp" + 56 * "r" + "`" * 2, False),  # 3 of 61
        ("ppp" * 6664 + "rrrrr", True),  # 19,997 lines
        ("ppp" * 6664 + "rrrrrrrr", False),  # 20,000 are no page
    ],
)
def test_how_much_prose_makes_a_page(lines: str, quoted: bool) -> None:
    detector = QuotationDetector()
    for each in lines.replace(" ", ""):
        detector.add({"p": PROSE, "r": ROW, "x": OTHER, "`": "```"}[each], of_log=each == "r")
        detector.add("  ", of_log=False)  # blank lines do not count
    of_log, count = lines.count("r"), len(lines.replace(" ", ""))
    assert detector.quoted() == ((of_log, count) if quoted else None)


@pytest.mark.parametrize(
    ("line", "prose"),
    [
        ("six words are just about enough", True),
        ("but five words are not", False),
        ("of ten words here there are eight real ones 1 2", True),
        ("of ten words here there are seven ones 1 2 3", False),
        ("# Heading", True),
        ("- item", True),
        ("an **important** one", True),
        ("one two three four five error", False),
        ("one two three four five /usr/lib/x", False),
    ],
)
def test_what_is_prose(line: str, prose: bool) -> None:
    detector = QuotationDetector()
    for _ in range(3):
        detector.add(line, of_log=False)
    assert (detector.quoted() is not None) == prose


@pytest.mark.parametrize("text", [README, NOTES])
def test_prose_that_quotes_a_few_rows(text: str) -> None:
    quoted = read(text)[0].quoted
    assert quoted is not None
    of_log, lines = quoted
    assert of_log == text.count("iter 5") + text.count("step 5")
    assert lines == sum(bool(line.strip()) for line in text.splitlines())


def test_a_log_with_some_text_around_it() -> None:
    about = "# My run\n\nIt went well, and this is what it printed while it did.\n\n1. a small model\n2. no bias\n"
    page = f"{about}3. rotary positions\n\n```\n{WHOLE_LOG}```\n"
    quoted = read(page)[0].quoted
    assert quoted is not None
    assert quoted[0] > quoted[1] / 2


@pytest.mark.parametrize(
    "noise",
    [
        "",
        WARNING * 40,
        SAMPLE * 200,
        f"```\n{SAMPLE * 50}```\n",
        "Collecting torch\n  Downloading torch.whl (700 MB)\n" * 50,
    ],
)
def test_a_log_is_no_prose(noise: str) -> None:
    half = WHOLE_LOG.index("iter 1200:")
    assert read(WHOLE_LOG[:half] + noise + WHOLE_LOG[half:])[0].quoted is None
    assert read(WARNING * 40 + WHOLE_LOG)[0].quoted is None


@pytest.mark.parametrize(
    "sentence",
    [
        "这一步只验证训练链路能跑通,当前模型是从随机初始化开始训练的。",
        "この実行では学習率を下げたので、損失はゆっくり下がりました。",
        "Кто-нибудь знает, почему некоторые строки намного медленнее остальных?",
    ],
)
def test_prose_in_other_scripts(sentence: str) -> None:
    detector = QuotationDetector()
    for line in [sentence] * 4 + [ROW] * 3:
        detector.add(line, of_log=line == ROW)
    assert detector.quoted() == (3, 7)
