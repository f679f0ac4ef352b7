from __future__ import annotations

import pytest

from nanopace.cli.needs_torch import needs_torch
from nanopace.errors import InputError, UsageError


def fail(error: Exception) -> None:
    with needs_torch("sample"):
        raise error


def test_a_missing_package_is_one_line_that_says_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"nanopace sample needs torch: pip install 'nanopace\[train\]'"):
        fail(ModuleNotFoundError(name="torch.nn"))


def test_a_missing_module_of_our_own_is_a_mistake_of_ours() -> None:
    with pytest.raises(ModuleNotFoundError):
        fail(ModuleNotFoundError(name="nanopace.train.gone"))


def test_what_the_disk_refuses_names_the_file() -> None:
    with pytest.raises(InputError, match="a/b: cannot be used: Permission denied"):
        fail(PermissionError(13, "Permission denied", "a/b"))


def test_a_reader_that_leaves_is_no_error_of_a_file() -> None:
    with pytest.raises(BrokenPipeError):
        fail(BrokenPipeError())
