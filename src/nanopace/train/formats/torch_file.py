"""Reads what `torch.save` wrote without running any of it.

Such a file is a program that builds its content. torch's restricted reader accepts the few instructions that weights
need and refuses all others; the weights stay on disk until they are used.
"""

from __future__ import annotations

import pickle
import re
import warnings
import zipfile
from pathlib import Path

import torch

from nanopace.errors import InputError, unreadable
from nanopace.files import open_regular

_ARCHIVE = b"PK\x03\x04"


def read_torch_file(path: Path) -> object:
    """Its content; InputError unless that is weights, plain values, or dicts and lists of them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of unknown instructions, which it then refuses
            return torch.load(path, map_location="cpu", weights_only=True, mmap=_can_be_mapped(path))
    except InputError:
        raise
    except OSError as error:
        raise unreadable(path, error) from None
    except pickle.UnpicklingError as error:
        called = re.search(r"GLOBAL (\S+)", str(error))
        if called is None:
            raise _damaged(path) from None
        raise InputError("{path}: holds more than weights: it calls {name}", path=path, name=called[1]) from None
    except Exception:  # malformed instructions can fail in any way
        raise _damaged(path) from None


def _can_be_mapped(path: Path) -> bool:
    """Whether it is an archive, as torch has written since 1.6. Like torch, this looks at the first bytes."""
    with open_regular(path) as file:
        if file.read(len(_ARCHIVE)) != _ARCHIVE:
            return False
    with zipfile.ZipFile(path) as archive:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise _damaged(path)  # torch never compresses, and a few bytes must not expand to fill memory
    return True


def _damaged(path: Path) -> InputError:
    return InputError("{path}: is not a file of torch.save, or is damaged", path=path)
