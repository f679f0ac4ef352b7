"""Config files are interpreted and never run: what is computed, skipped with a note, or refused with its line."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from nanopace.config import KNOBS
from nanopace.config_program import Program
from nanopace.config_text import read_config, read_config_text
from nanopace.errors import ConfigError


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
    """What `train` reads from a file, and the notes it prints."""
    program = Program.with_defaults()
    program.follow(ast.parse(text), text, "c.py")
    return {name: value for name, value in program.values.items() if name in KNOBS}, program.notes


PASSED_OVER = "c.py, line 1: skipped, since nothing is executed: "


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (
            "wandb_run_name = 'ft-' + str(time.time())",
            "c.py, line 1: wandb_run_name stays 'gpt2', since nothing is executed",
        ),
        ("wandb_project = user", "c.py, line 1: wandb_project stays 'owt', since nothing is executed"),
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
    assert notes == ("c.py, line 2: wandb_run_name stays 'a', since nothing is executed",)


def test_nobody_reads_a_thousand_notes() -> None:
    _, notes = noted("print()\n" * 1000)
    assert len(notes) == 11
    assert notes[-1] == "more lines skipped, since nothing is executed: 990"


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
    assert notes == ("c.py, line 5: wandb_run_name stays 'gpt2', since nothing is executed",)


def test_only_who_trains_among_nanogpt_s_defaults_calculates_with_them() -> None:
    """In a run's log, flags may have come before its config."""
    assert read_config_text("min_lr = learning_rate / 10", "c.py", to_train=True)
    with pytest.raises(ConfigError, match="line 1"):
        read_config_text("min_lr = learning_rate / 10", "c.py")
    for name in ("device", "dtype", "vocab_size"):  # of the machine or the data
        with pytest.raises(ConfigError, match="line 1"):
            read_config_text(f"out_dir = f'out-{{{name}}}'", "c.py", to_train=True)
