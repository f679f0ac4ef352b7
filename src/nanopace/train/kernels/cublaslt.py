"""Matrix products by the cuBLASLt that torch has loaded, called directly, to have a say in which algorithm is taken.

Matrices are as torch has them, row by row. The library's are column by column, so what it is asked for is the
transpose: out^T = b^T a^T.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
from functools import cache
from typing import Any

import torch
from torch import Tensor

ALIGNMENT = 16  # bytes, of every matrix
_WORKSPACE_BYTES = 32 << 20  # what torch gives it on a large card
_MOST = 16  # proposals: it has about 8

# The library's own numbers, which have been the same since its first version.
_SUCCESS, _COMPUTE_32F = 0, 68
_TYPES = {torch.bfloat16: 14, torch.float32: 0}
_TRANSPOSE_A, _TRANSPOSE_B = 3, 4
_MAX_WORKSPACE, _REDUCTION_SCHEMES, _ALIGNMENTS = 1, 3, (5, 6, 7, 8)
_SUMS_IN_FLOAT32 = 2  # where several programs add up one result


class CublasLtError(RuntimeError):
    """It does not take this product, or not by this algorithm."""


class _Proposal(ctypes.Structure):
    _fields_ = [
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("status", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    ]


class CublasLt:
    """The library with what it needs on one card."""

    def __init__(self, name: str, device: torch.device) -> None:
        """OSError: it is not there."""
        self._library = ctypes.CDLL(name)
        self._library.cublasLtGetVersion.restype = c_size_t
        self._library.cublasLtMatrixLayoutCreate.argtypes = [c_void_p, c_int, c_uint64, c_uint64, c_int64]
        self._library.cublasLtMatmulAlgoGetHeuristic.argtypes = [c_void_p] * 7 + [c_int, c_void_p, c_void_p]
        self._library.cublasLtMatmul.argtypes = [c_void_p] * 14 + [c_size_t, c_void_p]
        self.version = int(self._library.cublasLtGetVersion())
        self.device = device
        self.workspace = torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=device)
        self.handle = self._made("cublasLtCreate")
        self._preference = self._made("cublasLtMatmulPreferenceCreate")
        self._prefer(_MAX_WORKSPACE, c_uint64(_WORKSPACE_BYTES))
        self._prefer(_REDUCTION_SCHEMES, ctypes.c_uint32(_SUMS_IN_FLOAT32))
        for each in _ALIGNMENTS:
            self._prefer(each, ctypes.c_uint32(ALIGNMENT))

    def algorithms(self, a: Tensor, b: Tensor, out: Tensor, *, adds: bool) -> list[Algorithm]:
        """For a b in matrices of these shapes, or, if it `adds`, for adding that to what is there; as the library
        thinks best first."""
        description = self._made("cublasLtMatmulDescCreate", _COMPUTE_32F, _TYPES[torch.float32])
        for attribute, matrix in ((_TRANSPOSE_A, b), (_TRANSPOSE_B, a)):
            transposed = c_int(matrix.stride(1) != 1)
            self.call("cublasLtMatmulDescSetAttribute", description, attribute, byref(transposed), c_size_t(4))
        layouts = [self._layout(each) for each in (b, a, out)]
        found, count = (_Proposal * _MOST)(), c_int()
        self.call(
            "cublasLtMatmulAlgoGetHeuristic",
            self.handle, description, *layouts, layouts[2], self._preference, _MOST, byref(found), byref(count),
        )  # fmt: skip
        return [
            Algorithm(self, description, layouts, each, adds=adds)
            for each in found[: count.value]
            if each.status == _SUCCESS
        ]

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != _SUCCESS:
            raise CublasLtError(f"{name}: status {status}")

    def _made(self, name: str, *arguments: Any) -> c_void_p:
        made = c_void_p()
        self.call(name, byref(made), *arguments)
        return made

    def _prefer(self, attribute: int, value: Any) -> None:
        size = c_size_t(ctypes.sizeof(value))
        self.call("cublasLtMatmulPreferenceSetAttribute", self._preference, attribute, byref(value), size)

    def _layout(self, matrix: Tensor) -> c_void_p:
        """As it lies in memory: a transposed view is what it is a view of."""
        lying = matrix if matrix.stride(1) == 1 else matrix.t()
        rows, columns = lying.shape
        return self._made("cublasLtMatrixLayoutCreate", _TYPES[matrix.dtype], columns, rows, lying.stride(0))


class Algorithm:
    """One way to multiply matrices of certain shapes."""

    def __init__(
        self, library: CublasLt, description: c_void_p, layouts: Sequence[c_void_p], proposal: _Proposal, *, adds: bool
    ) -> None:
        self._library, self._description, self._layouts = library, description, layouts
        self._proposal, self._one, self._before = proposal, c_float(1), c_float(float(adds))

    def __call__(self, a: Tensor, b: Tensor, out: Tensor) -> None:
        """out = a b, or out += a b."""
        library, (b_lies, a_lies, out_lies) = self._library, self._layouts
        library.call(
            "cublasLtMatmul",
            library.handle,
            self._description,
            byref(self._one),
            b.data_ptr(),
            b_lies,
            a.data_ptr(),
            a_lies,
            byref(self._before),
            out.data_ptr(),
            out_lies,
            out.data_ptr(),
            out_lies,
            byref(self._proposal),
            library.workspace.data_ptr(),
            self._proposal.workspace,
            torch.cuda.current_stream(library.device).cuda_stream,
        )


@cache
def cublaslt(device: torch.device) -> CublasLt | None:
    """None where torch has none, or one that is called otherwise."""
    major = str(torch.version.cuda).partition(".")[0]
    try:
        return CublasLt(f"libcublasLt.so.{major}", device)
    except (OSError, AttributeError, CublasLtError):
        return None
