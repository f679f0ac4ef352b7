"""Rows and columns: the library is one of Python's here, which multiplies column by column, as cuBLASLt does."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from nanopace.train.kernels import cublaslt as module
from nanopace.train.kernels.cublaslt import CublasLt, CublasLtError

CPU = torch.device("cpu")
BYTES = {torch.bfloat16: 2, torch.float32: 4}
TYPES = {14: torch.bfloat16, 0: torch.float32}


class Library:
    """What cuBLASLt has of functions, as far as they are called."""

    def __init__(self, *, proposals: int = 2, version: int = 130000) -> None:
        self._things: dict[int, dict[Any, Any]] = {}
        self.fails: str | None = None
        self.preferred: dict[int, int] = {}
        for name, function in {
            "cublasLtGetVersion": lambda: version,
            "cublasLtCreate": self._new,
            "cublasLtMatmulPreferenceCreate": self._new,
            "cublasLtMatmulPreferenceSetAttribute": self._prefer,
            "cublasLtMatmulDescCreate": lambda made, compute, scale: self._new(made, compute=compute, scale=scale),
            "cublasLtMatmulDescSetAttribute": self._set,
            "cublasLtMatrixLayoutCreate": lambda made, dtype, rows, columns, step: self._new(
                made, dtype=TYPES[dtype], rows=rows, columns=columns, step=step
            ),
            "cublasLtMatmulAlgoGetHeuristic": lambda *given: self._propose(proposals, *given),
            "cublasLtMatmul": self._multiply,
        }.items():
            setattr(self, name, self._called(name, function))

    def _called(self, name: str, function: Any) -> Any:
        return lambda *given: 15 if self.fails == name else function(*given) or 0

    def _new(self, made: Any, **has: Any) -> None:
        number = len(self._things) + 1
        self._things[number], made._obj.value = has, number

    def _set(self, thing: Any, attribute: int, value: Any, size: Any) -> None:
        assert size.value == ctypes.sizeof(value._obj)
        self._things[thing.value][attribute] = value._obj.value

    def _prefer(self, _thing: Any, attribute: int, value: Any, size: Any) -> None:
        assert size.value == ctypes.sizeof(value._obj)
        self.preferred[attribute] = value._obj.value

    def _propose(self, proposals: int, *given: Any) -> None:
        most, found, count = given[7:]
        assert proposals < most
        for number in range(proposals):
            found._obj[number].algorithm[0] = number
            found._obj[number].status = 0 if number % 2 == 0 else 7  # every second one is none
        count._obj.value = proposals

    def _multiply(self, *given: Any) -> None:
        _, description, one, a, a_lies, b, b_lies, before, c, c_lies, d, d_lies, _, _, _, stream = given
        assert (c, c_lies.value, stream) == (d, d_lies.value, 7)
        has = self._things[description.value]
        assert (has["compute"], has["scale"]) == (68, 0)
        left, right, out = (self._lying(*each) for each in ((a, a_lies), (b, b_lies), (d, d_lies)))
        left, right = (each.t() if has[attribute] else each for attribute, each in ((3, left), (4, right)))
        found = one._obj.value * left.float() @ right.float() + before._obj.value * out.float()
        out.copy_(found)

    def _lying(self, place: int, layout: Any) -> Tensor:
        """Column by column, `step` apart."""
        has = self._things[layout.value]
        rows, columns, step = has["rows"], has["columns"], has["step"]
        size = ((columns - 1) * step + rows) * BYTES[has["dtype"]]
        values = torch.frombuffer((ctypes.c_char * size).from_address(place), dtype=has["dtype"])
        return values.as_strided((rows, columns), (1, step))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: SimpleNamespace(cuda_stream=7))
    return library


def draw(rows: int, columns: int, dtype: torch.dtype, seed: int) -> Tensor:
    return torch.randn((rows, columns), generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize(("dtype", "adds"), [(torch.bfloat16, False), (torch.bfloat16, True), (torch.float32, True)])
def test_matrices_are_multiplied_as_torch_has_them(
    a_transposed: bool, b_transposed: bool, dtype: torch.dtype, adds: bool
) -> None:
    a, b = draw(5, 7, torch.bfloat16, 1), draw(7, 3, torch.bfloat16, 2)
    a = a.t().contiguous().t() if a_transposed else a
    b = b.t().contiguous().t() if b_transposed else b
    whole = draw(5, 9, dtype, 3)
    out = whole[:, 3:6]  # a part of something wider
    expected = a.float() @ b.float() + (out.float() if adds else 0)
    around = whole[:, :3].clone(), whole[:, 6:].clone()
    (algorithm,) = CublasLt("libcublasLt.so", CPU).algorithms(a, b, out, adds=adds)
    algorithm(a, b, out)
    torch.testing.assert_close(out.float(), expected.to(dtype).float())
    assert torch.equal(whole[:, :3], around[0])
    assert torch.equal(whole[:, 6:], around[1])


def test_sums_are_in_float32_and_16_bytes_are_enough(library: Library) -> None:
    made = CublasLt("libcublasLt.so", CPU)
    assert made.version == 130000
    assert library.preferred == {1: made.workspace.numel(), 3: 2, 5: 16, 6: 16, 7: 16, 8: 16}


@pytest.mark.parametrize("function", ["cublasLtCreate", "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul"])
def test_what_fails_has_a_name(library: Library, function: str) -> None:
    a, b, out = draw(5, 7, torch.bfloat16, 1), draw(7, 3, torch.bfloat16, 2), draw(5, 3, torch.bfloat16, 3)
    library.fails = function
    with pytest.raises(CublasLtError, match=f"{function}: status 15"):
        CublasLt("libcublasLt.so", CPU).algorithms(a, b, out, adds=False)[0](a, b, out)


def test_one_that_cannot_be_used_is_none(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    module.cublaslt.cache_clear()
    assert isinstance(module.cublaslt(CPU), CublasLt)
    module.cublaslt.cache_clear()
    library.fails = "cublasLtCreate"
    assert module.cublaslt(CPU) is None
    module.cublaslt.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace())  # a library of another kind
    assert module.cublaslt(CPU) is None
    module.cublaslt.cache_clear()


def test_proposals_are_as_long_as_the_library_writes_them() -> None:
    """64 bytes of algorithm, the workspace, a status, a number of waves, and four reserved."""
    assert ctypes.sizeof(module._Proposal) == 64 + 8 + ctypes.sizeof(c_int) + ctypes.sizeof(c_float) + 16
