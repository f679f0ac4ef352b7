"""The names and signatures that other people's code relies on. Any change here is breaking, and must be announced."""

from __future__ import annotations

import inspect
import io
import json
import subprocess
import sys

import pytest

import nanopace
from nanopace.errors import InputError, NanopaceError, UnknownCard, UsageError

LOG = "".join(
    (f"step {i}: train loss 4.0000, val loss 4.1000\n" if i % 10 == 0 else "")
    + f"iter {i}: loss {5 - i / 100:.4f}, time {4500 if i % 10 == 0 else 500 + i % 3}.00ms, mfu 12.00%\n"
    for i in range(50)
).encode()

NAMES = [
    "Clock",
    "Comparison",
    "Diagnosis",
    "Finding",
    "NanopaceError",
    "Run",
    "__version__",
    "compare",
    "diagnose",
    "open_run",
    "open_runs",
    "render",
]

SIGNATURES = {
    "open_run": "(source: 'Source', *, config: 'str | Path | None' = None, set: 'Mapping[str, Value] | None' = None, "
    "gpu: 'str | None' = None, pattern: 'str | Sequence[str]' = (), run: 'int | None' = None) -> 'Run'",
    "open_runs": "(source: 'Source', *, config: 'str | Path | None' = None, set: 'Mapping[str, Value] | None' = None, "
    "gpu: 'str | None' = None, pattern: 'str | Sequence[str]' = ()) -> 'list[Run]'",
    "diagnose": "(run: 'Run', *, price: 'float | str | Sequence[float | str]' = (), "
    "co2: 'float | str | None' = None) -> 'Diagnosis'",
    "compare": "(a: 'Run | Diagnosis', b: 'Run | Diagnosis') -> 'Comparison'",
    "render": "(result: 'Result | Sequence[Diagnosis] | Sequence[Comparison]', *, "
    "format: \"Literal['text', 'html', 'json']\" = 'text', lang: 'str | None' = None, width: 'int' = 80) -> 'str'",
}


def test_the_names_are_frozen() -> None:
    assert sorted(nanopace.__all__) == NAMES
    assert all(hasattr(nanopace, name) for name in NAMES)
    assert set(NAMES) <= set(dir(nanopace))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        nanopace.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", list(SIGNATURES))
def test_the_signatures_are_frozen(name: str) -> None:
    function = getattr(nanopace, name)
    assert str(inspect.signature(function)) == SIGNATURES[name]
    assert function.__doc__


def test_importing_the_package_imports_nothing_else() -> None:
    probe = (
        "import sys, nanopace; print([m for m in sys.modules if m.startswith('nanopace.') or m in ('rich', 'numpy')])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "['nanopace.version']\n"


def test_what_a_run_costs() -> None:
    run = nanopace.open_run(io.BytesIO(LOG), gpu="4070")
    assert nanopace.diagnose(run).bill is None
    for price in (0.1 + 0.2, "0.30", ["0.30"], [0.3]):
        bill = nanopace.diagnose(run, price=price).bill
        assert bill is not None
        assert (bill.per_gpu_hour, bill.per_kwh, bill.currency) == (0.3, None, None)
    bill = nanopace.diagnose(run, price=["$2/h", "0.25/kWh"], co2=380).bill
    assert bill is not None
    assert (bill.per_gpu_hour, bill.per_kwh, bill.currency, bill.co2_g_per_kwh) == (2.0, 0.25, "$", 380.0)
    assert nanopace.diagnose(run, co2="0.38 kg/kWh").bill is not None
    for wrong in (-1.0, float("nan"), "cheap", ["1", "2"]):
        with pytest.raises(UsageError, match="--price"):
            nanopace.diagnose(run, price=wrong)


def test_from_a_log_to_a_report() -> None:
    run = nanopace.open_run(io.BytesIO(LOG), set={"batch_size": 8, "block_size": 256}, gpu="4070")
    assert isinstance(run, nanopace.Run)
    assert run.value("batch_size") == 8
    diagnosis = nanopace.diagnose(run)
    assert isinstance(diagnosis, nanopace.Diagnosis)
    assert max(map(len, nanopace.render(diagnosis, width=60).splitlines())) <= 60
    assert nanopace.render(diagnosis, lang="de") != nanopace.render(diagnosis)
    assert nanopace.render(diagnosis, format="html").lower().startswith("<!doctype html>")
    assert json.loads(nanopace.render(diagnosis, format="json"))["source"]["rows"] == 50
    assert len(json.loads(nanopace.render([diagnosis, diagnosis], format="json"))["runs"]) == 2


def test_comparing_runs_or_diagnoses() -> None:
    run = nanopace.open_run(io.BytesIO(LOG))
    comparison = nanopace.compare(run, nanopace.diagnose(run))
    assert isinstance(comparison, nanopace.Comparison)
    assert comparison.median_ms.ratio == 1
    assert json.loads(nanopace.render(comparison, format="json"))["changed"] == []
    assert nanopace.render(comparison)


def test_several_runs_have_to_be_told_apart() -> None:
    twice = LOG + LOG
    with pytest.raises(InputError, match="contains 2 runs; pick one with run=1 to run=2"):
        nanopace.open_run(io.BytesIO(twice))
    assert len(nanopace.open_runs(io.BytesIO(twice))) == 2
    assert nanopace.open_run(io.BytesIO(twice), run=2).rows[0].iteration == 0
    with pytest.raises(InputError, match="there is no run 3"):
        nanopace.open_run(io.BytesIO(twice), run=3)


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(UnknownCard):
        nanopace.open_run(io.BytesIO(LOG), gpu="no such card")
    with pytest.raises(UsageError, match="n_layers"):
        nanopace.open_run(io.BytesIO(LOG), set={"n_layers": 12})
    with pytest.raises(NanopaceError, match="n_layer must be int >= 1"):
        nanopace.open_run(io.BytesIO(LOG), set={"n_layer": 0})
    with pytest.raises(UsageError):
        nanopace.render([])
