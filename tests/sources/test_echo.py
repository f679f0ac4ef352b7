from __future__ import annotations

from nanopace.run import FactValue
from nanopace.sources.echo import EchoedConfig


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


def test_no_end_of_lines() -> None:
    assert knobs(*["x" * 80] * 5000, "n_layer = 6") == {"n_layer": 6}
    assert knobs("n_layer = 6", *["y" * 79] * 5000) == {"n_layer": 6}
