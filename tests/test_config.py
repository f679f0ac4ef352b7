"""Config files are read and never run; overrides name a knob that exists; TrainConfig refuses what cannot train."""

from __future__ import annotations

import ast
import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.config import KNOBS, TrainConfig
from nanopace.config_program import Program
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
        "batch_size = __import__('os').system('touch ran')",
        "batch_size = int(open('ran', 'w').write('8'))",
        "batch_size = a.b",
        "batch_size = unknown",
        "batch_size = [1, 2][0]",
        "batch_size = lambda: 1",
        "batch_size = {'a': 1}",
        "batch_size = 'a' * 10",
        "batch_size = '%s' % 1",
        "batch_size = 3j",
        "batch_size = (-1) ** 0.5",
        "batch_size = b'1'",
        "batch_size = 9**9**9",
        "batch_size = 10**400",
        "batch_size = 1e999",
        "batch_size = 10.0**400",
        "batch_size = 1 / 0",
        "batch_size = 1 % 0",
        "batch_size = " + "+".join("1" * 200),
        "batch_size, x = 1, unknown",
        "batch_size, x = 1, 2, 3",
        "batch_size, *x = 1, 2",
        "x = batch_size = unknown",
        "batch_size += unknown",
        "batch_size: int = unknown",
        "del batch_size",
        "import batch_size",
        "from sizes import large as batch_size",
        "from sizes import *",
        "if unknown: batch_size = 1",
        "if unknown: pass\nelse: batch_size = 1",
        "for batch_size in (1, 2): pass",
        "for each in (1, 2): batch_size *= 2",
        "while unknown: batch_size = 2",
        "with open('ran', 'w') as batch_size: pass",
        "try: batch_size = 4\nexcept OSError: pass",
        "def batch_size(): pass",
        "def f():\n  global batch_size",
        "match unknown:\n  case batch_size: pass",
        "print(batch_size := 4)",
        "x = [batch_size := 4 for x in (1,)]",
        "exec('batch_size = 4')",
        "exec(open('base.py').read())",
        "x = globals()",
        "globals()['batch_size'] = 4",
        "import sys; sys.modules['__main__'].batch_size = 4",
        "wandb_run_name = b'a'",
        "wandb_run_name = eval('batch_size')",
        "raise SystemExit",
        "out_dir = 'out-' + str(time.time())",
        "wandb_log = 'WANDB' in os.environ",
        "wandb_run_name = str(time.time()); out_dir = 'out-' + wandb_run_name",
        "x = 1; x = unknown; batch_size = x",
        "x = [8]; x.append(8); batch_size = len(x)",
        "x = 4\nif unknown: x = 5\nbatch_size = x",
        "def min(a, b): return a\nbatch_size = min(4, 8)",
        "from numpy import round\nbatch_size = round(8)",
        "batch_size = grad_accum",
    ],
)
@pytest.mark.parametrize("to_train", [False, True])
def test_a_knob_that_would_have_to_be_run_is_refused_with_its_line(
    line: str, to_train: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text(f"batch_size = 8\n\n{line}\n")
    with pytest.raises(ConfigError, match=r"^bad\.py, line [345]: ") as caught:
        read_config("bad.py", to_train=to_train)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_the_line_inside_a_long_statement() -> None:
    with pytest.raises(ConfigError, match=r"line 3: .*run_name"):
        read_config_text("out_dir = (\n  'a' +\n  run_name('b')\n)", "c.py")


def noted(text: str) -> tuple[dict[str, object], tuple[str, ...]]:
    """What `train` makes of a file, and what it tells the person."""
    program = Program.with_defaults()
    program.follow(ast.parse(text), text, "c.py")
    return {name: value for name, value in program.values.items() if name in KNOBS}, program.notes


PASSED_OVER = "c.py, line 1: is passed over, as nothing is executed: "


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (
            "wandb_run_name = 'ft-' + str(time.time())",
            "c.py, line 1: wandb_run_name is left at 'gpt2': nothing is executed",
        ),
        ("wandb_project = user", "c.py, line 1: wandb_project is left at 'owt': nothing is executed"),
        ("stamp = time.strftime('%H')", PASSED_OVER + "stamp = time.strftime('%H')"),
        ("print(f'{batch_size=}')", PASSED_OVER + "print(f'{batch_size=}')"),
        ("os.environ['OMP_NUM_THREADS'] = '1'", PASSED_OVER + "os.environ['OMP_NUM_THREADS'] = '1'"),
        ("assert batch_size % n_gpu == 0", PASSED_OVER + "assert batch_size % n_gpu == 0"),
        ("x = 9**9**9", PASSED_OVER + "x = 9**9**9"),
        ("if cuda: x = 1", PASSED_OVER + "if cuda: x = 1"),
        ("def f(batch_size): n_layer = 4", PASSED_OVER + "def f(batch_size): n_layer = 4"),
        ("class A: batch_size = 4", PASSED_OVER + "class A: batch_size = 4"),
        ("del x", PASSED_OVER + "del x"),
    ],
)
def test_a_line_that_sets_no_knob_of_the_training_is_passed_over_with_a_note(line: str, note: str) -> None:
    assert noted(f"{line}\nbatch_size = 4") == ({"batch_size": 4}, (note,))


def test_a_note_is_no_longer_said_once_the_knob_is_set() -> None:
    assert noted("wandb_run_name = time()\nwandb_run_name = 'a'") == ({"wandb_run_name": "a"}, ())
    values, notes = noted("wandb_run_name = 'a'\nwandb_run_name += time()")
    assert values == {"wandb_run_name": "a"}
    assert notes == ("c.py, line 2: wandb_run_name is left at 'a': nothing is executed",)


def test_nobody_reads_a_thousand_notes() -> None:
    _, notes = noted("print()\n" * 1000)
    assert len(notes) == 11
    assert notes[-1] == "990 more lines are passed over, as nothing is executed"


# As forks of nanoGPT write them.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import time, os.path\nfrom math import sqrt", {}),
        ("n_gpu = 8\ngradient_accumulation_steps = 5 * n_gpu", {"gradient_accumulation_steps": 40}),
        ("max_iters = int(1e4 // 3)\nlr_decay_iters = max_iters", {"max_iters": 3333, "lr_decay_iters": 3333}),
        ("size = 's'\nout_dir = f'out/{size}-{n_layer}x{n_embd}'", {"out_dir": "out/s-12x768"}),
        (
            "learning_rate = 1e-3\nout_dir = f'out-lr{learning_rate:.0e}'",
            {"learning_rate": 1e-3, "out_dir": "out-lr1e-03"},
        ),
        ("batch_size: int = 4\nbatch_size *= 2\nx: int", {"batch_size": 8}),
        (
            "n_layer = n_head = 6\nn_embd, dropout = 64 * n_head, 0.1",
            {"n_layer": 6, "n_head": 6, "n_embd": 384, "dropout": 0.1},
        ),
        ("(n_layer, [n_head, x]) = 6, (3, None)", {"n_layer": 6, "n_head": 3}),
        ("small = True\nif small:\n  n_layer = 2\nelif x:\n  n_layer = y\nelse:\n  n_layer = z()", {"n_layer": 2}),
        ("if n_layer > 20:\n  n_layer = 2\nelse:\n  n_layer += 1", {"n_layer": 13}),
        ("if __name__ == '__main__':\n  n_layer = 2", {"n_layer": 2}),
        ("min_lr = learning_rate / 10", {"min_lr": 6e-4 / 10}),
        ("n_embd = max(64 * 2, 100)\nn_head = n_embd // 64", {"n_embd": 128, "n_head": 2}),
        ("warmup_iters = round(0.05 * 1000)", {"warmup_iters": 50}),
        ("dropout = 0.2 if n_layer < 20 else 0.0", {"dropout": 0.2}),
        ("pass; 'text'; 7; ...", {}),
    ],
)
def test_what_follows_from_literals_is_read(text: str, expected: dict[str, object]) -> None:
    assert noted(text) == (expected, ())


def test_a_finetuning_config_with_everything_in_it() -> None:
    text = """\
import time

out_dir = 'out-plays'
wandb_log = False # not yet
wandb_run_name = 'ft-' + str(time.time())
dataset = 'plays'
init_from = 'gpt2-xl'
always_save_checkpoint = False
gradient_accumulation_steps = 32
learning_rate = 3e-5
decay_lr = False
"""
    values, notes = noted(text)
    assert values == {
        "out_dir": "out-plays",
        "wandb_log": False,
        "dataset": "plays",
        "init_from": "gpt2-xl",
        "always_save_checkpoint": False,
        "gradient_accumulation_steps": 32,
        "learning_rate": 3e-5,
        "decay_lr": False,
    }
    assert notes == ("c.py, line 5: wandb_run_name is left at 'gpt2': nothing is executed",)


def test_only_who_trains_among_nanogpt_s_defaults_calculates_with_them() -> None:
    """The log of a run may have had flags before its config."""
    assert read_config_text("min_lr = learning_rate / 10", "c.py", to_train=True)
    with pytest.raises(ConfigError, match="line 1"):
        read_config_text("min_lr = learning_rate / 10", "c.py")
    for name in ("device", "dtype", "vocab_size"):  # of the machine or the data
        with pytest.raises(ConfigError, match="line 1"):
            read_config_text(f"out_dir = f'out-{{{name}}}'", "c.py", to_train=True)


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
    """Python 3.11 needs the square of the time for an f-string, whatever we make of it afterwards."""
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
