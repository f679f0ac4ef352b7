"""Config files and overrides as people write them: read within bounds, with errors that name file, line and knob."""

from __future__ import annotations

import ast
import contextlib
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.config_text import read_config, read_config_text, read_override, split_overrides
from nanopace.errors import ConfigError, UsageError

SHAKESPEARE = """\
# a small model, a character at a time
out_dir = 'out-shakespeare-char'
eval_interval = 250  # it will overfit
gradient_accumulation_steps = 5 * 8
batch_size = 64
learning_rate = 1e-3
max_iters = 5000
lr_decay_iters = max_iters
min_lr = learning_rate / 10
dropout = 0.2
compile = False
"""


def test_a_config_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SHAKESPEARE)
    assert read_config(path) == {
        "out_dir": "out-shakespeare-char",
        "eval_interval": 250,
        "gradient_accumulation_steps": 40,
        "batch_size": 64,
        "learning_rate": 1e-3,
        "max_iters": 5000,
        "lr_decay_iters": 5000,
        "min_lr": 1e-4,
        "dropout": 0.2,
        "compile": False,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x = -3", -3),
        ("x = (1 + 2) * 4 - 6", 6),
        ("x = 7 // 2 + 7 % 2", 4),
        ("x = 2**16", 65536),
        ("x = 10 / 4", 2.5),
        ("x = 'ft-' + 'small'", "ft-small"),
        ("x = True", True),
        ("n = 3\nx = n * n", 9),
        ("x = 1; x = 2", 2),
        ('"""What this is for."""\nx = 1', 1),
        ("batch_size = 4\r\nx = 1\r\n", 1),
    ],
)
def test_literals_and_arithmetic(text: str, value: object) -> None:
    assert read_config_text(text, "c.py")["x"] == value


@pytest.mark.parametrize("text", ["x = None", "x = (0.9, 0.95)", "x = [1, 2]", "x = 1\nx = None"])
def test_what_no_knob_can_be_is_left_out(text: str) -> None:
    assert read_config_text(text, "c.py") == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "x = f'" + "{1}" * 80_000 + "'",
        "x = f" + "'" * 3 + "{1}\n" * 60_000 + "'" * 3,
        "x = f'" + "a" * 200_000 + "{1}" * 900 + "'",
        "x = 'a' * 4000\n" + "".join(f"y{n} = f'{{x}}{n}'\n" for n in range(900)),
        "x = '" + "a" * 4000 + "'\n" + "".join(f"y{n} = x + '{n}'\n" for n in range(12_000)),
        "x = '" + "a" * 4000 + "'\ny = (" + "x + 'b', " * 25_000 + ")",
        "x = (" + "1," * 100_000 + ")\n" + "y = max(x)\n" * 4000,
        "x = {" + "1," * 100_000 + "}",
        "if a: pass\n" + "elif a: pass\n" * 5000,
    ],
    ids=lambda text: text[:20],
)
def test_no_text_takes_long(text: str) -> None:
    began = time.process_time()
    with contextlib.suppress(ConfigError):
        read_config_text(text, "c.py", to_train=True)
    assert time.process_time() - began < 5  # all of them take less than one; a square of their length is minutes


def test_braces_are_counted_before_anything_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 takes quadratic time to parse an f-string, whatever we do with it afterwards."""
    assert read_config_text("x = f'" + "{1}" * 1000 + "'", "c.py") == {"x": "1" * 1000}
    monkeypatch.setattr(ast, "parse", lambda *_: pytest.fail("parsed"))
    with pytest.raises(ConfigError, match="too large"):
        read_config_text("x = f'" + "{1}" * 1001 + "'", "c.py")


def test_the_values_take_no_more_memory_than_the_text() -> None:
    text = "x = '" + "a" * 4000 + "'\n" + "".join(f"y{n} = x + '{n}'\n" for n in range(5_000))
    found = read_config_text(text, "c.py")
    assert found["y0"] == "a" * 4000 + "0"
    assert sum(map(len, map(str, found.values()))) < 2 << 20  # and not 20 MB


@pytest.mark.parametrize(
    "text", ["(" * 5000 + ")" * 5000, "x = " + "-" * 50000 + "1", "x = " + "1+" * 50000 + "1", "x = \0"]
)
def test_hostile_nesting_is_one_clean_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^c\.py"):
        read_config_text(text, "c.py")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_no_text_raises_anything_else(text: str) -> None:
    with contextlib.suppress(ConfigError):
        found = read_config_text(text, "c.py")
        assert all(isinstance(value, (bool, int, float, str)) for value in found.values())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch_size = 'eight'", "line 1: batch_size must be int >= 1, not 'eight'"),
        ("batch_size = 0", "line 1: batch_size must be int >= 1, not 0"),
        ("bias = 1", "line 1: bias must be True/False, not 1"),
        ("x = 1\ndropout = 1.5", "line 2: dropout must be float >= 0, < 1, not 1.5"),
        ("batch_size = ", "line 1: is not Python"),
    ],
)
def test_a_value_that_the_knob_cannot_have(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config_text(text, "c.py")
    assert said in str(caught.value)


def test_whole_floats_are_whole_numbers() -> None:
    assert read_config_text("max_iters = 6e5\ndropout = 0", "c.py") == {"max_iters": 600000, "dropout": 0.0}
    assert type(read_config_text("max_iters = 6e5", "c.py")["max_iters"]) is int


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such config file"):
        read_config(tmp_path / "none.py")
    with pytest.raises(ConfigError, match="is a directory"):
        read_config(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config("a\0b")
    latin = tmp_path / "latin.py"
    latin.write_bytes("batch_size = 8\nout_dir = 'é'\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="line 2: is not UTF-8"):
        read_config(latin)
    large = tmp_path / "large.log"
    large.write_bytes(b"#" * (2 << 20))
    with pytest.raises(ConfigError, match="too large"):
        read_config(large)


def test_a_pipe_is_read_as_far_as_somebody_writes_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell passes one for `<(...)`, and an untrusted directory may contain one."""
    pipe = tmp_path / "config.py"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb") as file:
            file.write(b"batch_size")
            file.flush()
            time.sleep(0.2)
            file.write(b" = 8")

    writer = threading.Thread(target=write)
    writer.start()
    assert read_config(pipe) == {"batch_size": 8}
    writer.join()
    monkeypatch.setattr("nanopace.config_text._PATIENCE_S", 0.1)
    with pytest.raises(ConfigError, match=r"config\.py: cannot be read: it is a pipe that nobody writes to"):
        read_config(pipe)


def test_a_byte_order_mark_is_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bom.py"
    path.write_bytes(b"\xef\xbb\xbfbatch_size = 8\r\nblock_size = 256\r\n")
    assert read_config(path) == {"batch_size": 8, "block_size": 256}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch_size=8", ("batch_size", 8)),
        (" batch_size = 8 ", ("batch_size", 8)),
        ("gradient_accumulation_steps=5*8", ("gradient_accumulation_steps", 40)),
        ("max_iters=6e5", ("max_iters", 600000)),
        ("learning_rate=1", ("learning_rate", 1.0)),
        ("compile=False", ("compile", False)),
        ("compile=true", ("compile", True)),
        ("dataset=openwebtext", ("dataset", "openwebtext")),
        ("dataset='a=b'", ("dataset", "a=b")),
        ("wandb_run_name=7", ("wandb_run_name", "7")),
        ("out_dir=out/a=b", ("out_dir", "out/a=b")),
        ("out_dir=str(5)", ("out_dir", "str(5)")),
        ("out_dir=f'{5}'", ("out_dir", "f'{5}'")),
        ("batch_size=int(8.0)", ("batch_size", 8)),
    ],
)
def test_overrides(text: str, expected: tuple[str, object]) -> None:
    assert read_override(text) == expected
    assert type(read_override(text)[1]) is type(expected[1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch_size=8", ["batch_size=8"]),
        ("batch_size=8,n_embd = 64", ["batch_size=8", "n_embd = 64"]),
        ("without=rope,xsa, matrix_lr=0.02", ["without=rope,xsa", "matrix_lr=0.02"]),
        ("dataset='a,b',seed=3", ["dataset='a,b'", "seed=3"]),
        ("batch_size", ["batch_size"]),
        ("", [""]),
    ],
)
def test_several_overrides_are_separated_where_a_name_follows(text: str, expected: list[str]) -> None:
    assert split_overrides(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch_size", "must be name=value"),
        ("=8", "must be name=value"),
        ("batchsize=8", "did you mean batch_size?"),
        ("n_layers=8", "did you mean n_layer?"),
        ("zzzz=8", "unknown setting"),
        ("batch_size=eight", "batch_size: must be int >= 1, not 'eight'"),
        ("batch_size=8.5", "batch_size: must be int >= 1"),
        ("batch_size=-8", "batch_size: must be int >= 1"),
        ("batch_size=True", "batch_size: must be int >= 1"),
        ("batch_size=", "batch_size: must be int >= 1"),
        ("compile=1", "compile: must be True/False"),
        ("batch_size=__import__('os')", "batch_size: must be int >= 1"),
    ],
)
def test_overrides_that_cannot_be(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_override(text)
    assert said in str(caught.value)
