"""Matrix products, each by the algorithm that is fastest on this card, found by trying.

torch takes what cuBLAS expects to be fastest. Others that it proposes were up to 1.2 times as fast on an H200 that was
at its power limit, as a card that trains is (LOG.md).

What is multiplied is known once a first pass has asked for it. Then each product is tried, and the answer remembered
for the next start. What nobody has tried torch multiplies, and so it does where there is no cuBLASLt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from nanopace.train.kernels.cublaslt import ALIGNMENT, Algorithm, CublasLt, CublasLtError, cublaslt
from nanopace.train.out_of_memory import attempt
from nanopace.train.warm_start import recall, remember

_TOPIC = "products"
_BURST_MS = 4.0  # of one algorithm, before it is another's turn
_ROUNDS = 3
_FINALISTS = 4  # beside torch's
_RECORDED_MS, _MOST_RECORDED = 1.0, 10  # so that what is timed is the card and not the host
_WORTH_IT = 1.03  # times torch's speed alone: taking less gained less in the whole, on the one card where both ran


def product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """a b"""
    if out is None:
        out = a.new_empty((a.size(0), b.size(1)))
    algorithm = _answer(a, b, out, adds=False)
    if algorithm is None:
        return torch.mm(a, b, out=out)
    algorithm(a, b, out)
    return out


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a b, in the product itself and not in a pass of its own. What is added to a total in float32 is not
    rounded before."""
    algorithm = _answer(a, b, total, adds=True)
    if algorithm is None:
        _add_by_torch(total, a, b)
    else:
        algorithm(a, b, total)


def _add_by_torch(total: Tensor, a: Tensor, b: Tensor) -> None:
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    elif total.is_cuda:
        torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    else:
        total.addmm_(a.to(total.dtype), b.to(total.dtype))


# --- what is asked for -----------------------------------------------------------------------------------------------


class Question(NamedTuple):
    """All that the answer depends on, beside the card."""

    rows: int
    inner: int
    columns: int
    a_strides: tuple[int, ...]
    b_strides: tuple[int, ...]
    out_strides: tuple[int, ...]
    out_dtype: torch.dtype
    adds: bool
    device: torch.device

    def matrices(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Two to multiply, and one for what comes out; nothing is in them yet."""
        return (
            torch.empty_strided((self.rows, self.inner), self.a_strides, dtype=torch.bfloat16, device=device),
            torch.empty_strided((self.inner, self.columns), self.b_strides, dtype=torch.bfloat16, device=device),
            torch.empty_strided((self.rows, self.columns), self.out_strides, dtype=self.out_dtype, device=device),
        )


_answers: dict[Question, Algorithm | None] = {}  # None: torch's choice
_asked: dict[Question, None] = {}  # in the order of the first time, and not answered yet


def _answer(a: Tensor, b: Tensor, out: Tensor, *, adds: bool) -> Algorithm | None:
    if not a.is_cuda or a.dtype != torch.bfloat16 or (a.data_ptr() | b.data_ptr() | out.data_ptr()) % ALIGNMENT:
        return None
    (rows, inner), columns = a.shape, b.size(1)
    question = Question(rows, inner, columns, a.stride(), b.stride(), out.stride(), out.dtype, adds, a.device)
    try:
        return _answers[question]
    except KeyError:
        _asked[question] = None
        return None


# --- which is fastest ------------------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """One of the library's proposals, or -1, torch's; and how many times as fast as torch's it is."""

    number: int
    speed: float


TORCH_S = Choice(-1, 1.0)


def choose_algorithms() -> str | None:
    """Answer all that was asked since, and say what came out; None: nothing was asked."""
    choices, before = [], 0
    while _asked:
        question = next(iter(_asked))
        library = cublaslt(question.device)
        if library is None:
            _answers[question] = None
        else:
            proposals = _proposals(question, library)
            choice, known = _choice(question, library, proposals)
            choices.append(choice)
            before += known
            _answers[question] = proposals[choice.number] if choice.number >= 0 else None
        del _asked[question]
    if not choices:
        return None
    faster = [each.speed for each in choices if each.number >= 0]
    said = f"{len(faster)} of {len(choices)} matrix products by other algorithms than torch's"
    if faster:
        said += f", {min(faster):.2f} to {max(faster):.2f} times as fast"
    return said + (", measured before" if before == len(choices) else "")


def _choice(question: Question, library: CublasLt, proposals: Sequence[Algorithm]) -> tuple[Choice, bool]:
    """And whether it was known before."""
    card = torch.cuda.get_device_name(question.device)
    written = f"{card}, cuBLASLt {library.version}, torch {torch.__version__}, {question[:-1]}"
    known = _read(recall(_TOPIC, written), len(proposals))
    if known is not None:
        return known, True
    found = attempt(lambda: _measured(question, proposals))
    if found is None:  # memory is full, and may not be at the next start
        return TORCH_S, False
    remember(_TOPIC, written, f"{found.number} {found.speed:.3f}")
    return found, False


def _read(written: str | None, proposals: int) -> Choice | None:
    """None where it is not what `_choice` writes."""
    try:
        number, speed = (written or "").split()
        choice = Choice(int(number), float(speed))
    except ValueError:
        return None
    return choice if -1 <= choice.number < proposals and math.isfinite(choice.speed) else None


def _proposals(question: Question, library: CublasLt) -> list[Algorithm]:
    """The same at every start: it is a table in the library."""
    try:
        return library.algorithms(*question.matrices(torch.device("meta")), adds=question.adds)
    except CublasLtError:
        return []


def _measured(question: Question, proposals: Sequence[Algorithm]) -> Choice:
    a, b, out = question.matrices(question.device)
    generator = torch.Generator(question.device).manual_seed(0)  # the run's own is not drawn from
    for each in (a, b):
        each.normal_(std=0.02, generator=generator)
    out.zero_()
    by_torch = partial(_add_by_torch, out, a, b) if question.adds else partial(torch.mm, a, b, out=out)
    trials = {-1: Trial(by_torch)}
    for number, algorithm in enumerate(proposals):
        try:
            trials[number] = Trial(partial(algorithm, a, b, out))
        except CublasLtError:
            continue
    rough = {number: trial.burst(_BURST_MS / 2) for number, trial in trials.items()}
    finalists = sorted(rough.keys() - {-1}, key=lambda number: rough[number])[:_FINALISTS]
    times: dict[int, list[float]] = {number: [] for number in (-1, *finalists)}
    for _ in range(_ROUNDS):
        for number, found in times.items():
            found.append(trials[number].burst(_BURST_MS))
    return _best({number: median(found) for number, found in times.items()})


def _best(times: dict[int, float]) -> Choice:
    """By their times, torch's under -1."""
    number = min(times, key=lambda each: times[each])
    speed = times[-1] / times[number]
    return Choice(number, speed) if speed >= _WORTH_IT else TORCH_S


class Trial:
    """Something the card does, recorded some times in a row."""

    def __init__(self, do: Callable[[], object]) -> None:
        do()  # libraries load and make their plans, which a graph cannot record
        once = _timed([do])
        self._count = max(1, min(_MOST_RECORDED, round(_RECORDED_MS / once)))
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            for _ in range(self._count):
                do()
        self._ms = _timed([self._graph.replay] * 2) / 2

    def burst(self, ms: float) -> float:
        """What one takes in ms, of so many that it takes `ms` together."""
        replays = max(1, math.ceil(ms / self._ms))
        return _timed([self._graph.replay] * replays) / (replays * self._count)


def _timed(doings: Sequence[Callable[[], object]]) -> float:
    """In ms, by the card's clock."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for do in doings:
        do()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))
