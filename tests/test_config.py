"""Config files are read and never run; overrides name a knob that exists; TrainConfig refuses what cannot train."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.config import KNOBS, TrainConfig
from nanopace.config_text import read_config, read_config_text, read_override
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


@pytest.mark.parametrize(
    "line",
    [
        "import time",
        "from os import system",
        "wandb_run_name = 'ft-' + str(time.time())",
        "x = __import__('os').system('touch ran')",
        "x = open('ran', 'w')",
        "x = f'{1}'",
        "x = a.b",
        "x = unknown",
        "x = [1, 2][0]",
        "x = 1 if True else 2",
        "x = lambda: 1",
        "x = {'a': 1}",
        "x = 1 < 2",
        "x = not 1",
        "x = 'a' * 10",
        "x = '%s' % 1",
        "x = 3j",
        "x = (-1) ** 0.5",
        "x = b'1'",
        "x = 9**9**9",
        "x = 10**400",
        "x = 1e999",
        "x = 10.0**400",
        "x = 1 / 0",
        "x = 1 % 0",
        "x, y = 1, 2",
        "x += 1",
        "x: int = 1",
        "del x",
        "print('hello')",
        "if True: x = 1",
        "x = " + "+".join("1" * 200),
    ],
)
def test_anything_else_is_refused_with_its_line(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text(f"batch_size = 8\n\n{line}\n")
    with pytest.raises(ConfigError, match=r"^bad\.py, line 3: ") as caught:
        read_config("bad.py")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_the_line_inside_a_long_statement() -> None:
    with pytest.raises(ConfigError, match=r"line 3: .*run_name"):
        read_config_text("x = (\n  'a' +\n  run_name('b')\n)", "c.py")


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
    ],
)
def test_overrides(text: str, expected: tuple[str, object]) -> None:
    assert read_override(text) == expected
    assert type(read_override(text)[1]) is type(expected[1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch_size", "must be knob=value"),
        ("=8", "must be knob=value"),
        ("batchsize=8", "did you mean batch_size?"),
        ("n_layers=8", "did you mean n_layer?"),
        ("zzzz=8", "no such knob"),
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


def test_the_knobs_are_nanogpts() -> None:
    assert KNOBS["batch_size"].default == 12
    assert KNOBS["gradient_accumulation_steps"].default == 40
    assert KNOBS["learning_rate"].default == 6e-4
    assert KNOBS["bias"].default is False
    own = {"seed", "documents", "eval_train", "eval_target_error", "save_interval", "keep_last", "overwrite", "which"}
    own |= {"memory_limit", "parallel", "recipe", "without", "matrix_lr", "cooldown", "fused", "fp8", "memory"}
    assert len(KNOBS.keys() - own) == 34
    assert own < KNOBS.keys()
    assert all(knob.why and knob.fitted(knob.default) == knob.default for knob in KNOBS.values())


def test_the_defaults_make_a_config() -> None:
    config = TrainConfig()
    assert {name: getattr(config, name) for name in KNOBS} == {name: knob.default for name, knob in KNOBS.items()}
    assert TrainConfig(**read_config_text(SHAKESPEARE, "c.py")).min_lr == 1e-4  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"batch_size": "8"}, "batch_size must be int"),
        ({"batch_size": 0}, "batch_size must be int >= 1"),
        ({"beta2": 1.0}, "beta2 must be float >= 0, < 1"),
        ({"n_head": 7}, "n_embd must be a multiple of n_head"),
        ({"min_lr": 1.0}, "min_lr must not be above learning_rate"),
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"parallel": "fsdp", "dtype": "float16"}, "parallel=fsdp and dtype=float16 exclude each other"),
    ],
)
def test_a_config_that_cannot_train_names_its_knob(knobs: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TrainConfig(**knobs)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_a_constant_rate_needs_no_minimum() -> None:
    assert TrainConfig(learning_rate=3e-5, decay_lr=False).learning_rate == 3e-5
