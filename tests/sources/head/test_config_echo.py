from __future__ import annotations

import time

import pytest

from nanopace.config_text import read_override
from nanopace.run import FactValue
from nanopace.sources.head.config_echo import EchoedConfig
from nanopace.sources.head.fork_settings import Settings


def knobs(*lines: str, width: int = 80) -> dict[str, FactValue]:
    config = EchoedConfig(width)
    for line in lines:
        config.add(line)
    return config.knobs()


def test_a_config() -> None:
    assert knobs("# small", "", "batch_size = 8 # was 16", "block_size = 2 * 512", "my_own = 3") == {
        "batch_size": 8,
        "block_size": 1024,
    }


def test_a_text_that_only_speaks_of_knobs() -> None:
    assert knobs('"""', "batch_size = 5", '"""', "n_layer = 6") == {"n_layer": 6}


def test_lines_that_cannot_be_read_do_not_spoil_the_others() -> None:
    assert knobs(
        "import os",
        "out_dir = os.path.join('a', 'b')",
        "learning_rate = 'high'",
        "batch_size = 8 # small",
        "2024-01-01 10:00:00 n_layer = 6",
        "# n_head = 12",
        "x.py:7: UserWarning: dropout == 0.1",
    ) == {"batch_size": 8, "n_layer": 6}


def test_a_comment_that_a_terminal_broke() -> None:
    assert knobs("batch_size = 8 # we had", " n_layer = 4", width=23) == {"batch_size": 8}
    assert knobs("n_layer = 6  # and more", "in a second line of it", width=23) == {"n_layer": 6}


def test_a_value_that_a_terminal_broke() -> None:
    assert knobs("wandb_run_name = 'a-lon", "g-name'", "n_layer = 6", width=23) == {
        "wandb_run_name": "a-long-name",
        "n_layer": 6,
    }


def test_the_longest_line_of_an_unbroken_config() -> None:
    assert knobs("batch_size = 8  # eight.", "n_layer = 6", width=24) == {"batch_size": 8, "n_layer": 6}


@pytest.mark.parametrize(("before", "found"), [(1999, True), (2000, False)])
def test_2000_lines_are_kept(before: int, found: bool) -> None:
    assert knobs(*["# x"] * before, "n_layer = 6") == ({"n_layer": 6} if found else {})


@pytest.mark.parametrize(("name", "found"), [("a" * 983, True), ("a" * 984, False)])
def test_1000_characters_of_a_line_are_kept(name: str, found: bool) -> None:
    line = f"wandb_run_name='{name}'"
    assert len(line) == len(name) + 17
    assert knobs(line, width=9999) == ({"wandb_run_name": name} if found else {})
    assert knobs(line[:500], line[500:], width=500) == ({"wandb_run_name": name} if found else {})


def test_no_end_of_lines() -> None:
    assert knobs(*["x" * 80] * 5000, "n_layer = 6") == {"n_layer": 6}
    assert knobs("n_layer = 6", *["y" * 79] * 5000) == {"n_layer": 6}


def test_a_finetuning_config() -> None:
    assert knobs(
        "import time",
        "wandb_run_name = 'ft-' + str(time.time())",
        "n_layer = 6",
        "out_dir = f'out-{n_layer}'",
        "lr_decay_iters = max_iters",  # which a flag may have set before
    ) == {"n_layer": 6}
    assert knobs("import time", "wandb_run_name = str(time.time())", "n_layer = 6", "out_dir = f'out-{n_layer}'") == {
        "n_layer": 6,
        "out_dir": "out-6",
    }


def test_f_strings_that_some_pythons_take_the_square_of_the_time_for() -> None:
    began = time.process_time()
    long = "{1}" * 330
    assert knobs("n_layer = 6", *[f"out_dir = f'{long}'"] * 2000, width=2000) == {"n_layer": 6}
    assert knobs("n_layer = 6", "out_dir = f'''", *[long] * 2000, "'''", width=2000) == {"n_layer": 6}
    assert read_override(f"out_dir='' f'{long * 300}'")[1] == f"'' f'{long * 300}'"
    settings = Settings()
    assert settings.read(f"{{'n_layer': 6, 'x': f'{long}'}}") == {}
    assert settings.read("{'n_layer': 6, 'x': f'{1}'}") == {"n_layer": 6}
    assert time.process_time() - began < 5  # it takes a tenth of a second; all of it parsed, minutes
