"""What a log contains before its rows: the card, and settings in a fork's own words."""

from __future__ import annotations

import time

import pytest

from nanopace.sources.head.card_lines import card_of
from nanopace.sources.head.fork_settings import Settings

from ..nanogpt_logs import WHOLE_LOG
from ..reading import read

ROW = "iter 0: loss 4.1916, lr 2.00e-05, time 2913.29ms\n"
SMI = "|   {n}  {name:<28}   On  | 00000000:0{n}:00.0 Off |                    0 |\n"


@pytest.mark.parametrize(
    ("line", "card"),
    [
        (SMI.format(n=0, name="NVIDIA A100-SXM4-40GB"), "NVIDIA A100-SXM4-40GB"),
        (SMI.format(n=0, name="Tesla V100-SXM2..."), "Tesla V100-SXM2"),  # 16 or 32 GB
        (SMI.format(n=0, name="NVIDIA GeForce RTX 3060 ..."), None),  # Ti, Laptop, or neither
        (SMI.format(n=0, name="NVIDIA GeForce ..."), None),
        ("| NVIDIA-SMI 535.129.03      Driver Version: 535.129.03   CUDA Version: 12.2     |", None),
        ("GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-0000)", "NVIDIA GeForce RTX 3090"),
        ("Using GPU: NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("device: NVIDIA L4", "NVIDIA L4"),
        ("device: cuda (Tesla V100-SXM2-16GB)", "Tesla V100-SXM2-16GB"),
        ("GPU: A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("x.py:9: UserWarning: Tesla T4 does not support bfloat16 compilation natively, skipping", "Tesla T4"),
        ("GPU 0: NVIDIA Unheard 9 (UUID: GPU-0000)", "NVIDIA Unheard 9"),
        ("x.py:9: UserWarning: Tesla Q9 does not support bfloat16 natively", "Tesla Q9"),
        ("Using NVIDIA L4q now", None),
        ("device: cuda", None),
        ("Using GPU 0", None),
        ("# I have an NVIDIA L4", None),
        ("the A100 of my friend is faster", None),
    ],
)
def test_the_card_of_a_line(line: str, card: str | None) -> None:
    assert card_of(line) == card


def test_a_card_in_the_head_is_a_fact() -> None:
    table = "".join(SMI.format(n=n, name="NVIDIA A100-SXM4-40GB") for n in range(4))
    (run,) = read(table + WHOLE_LOG)
    assert run.facts["gpu"].value == "NVIDIA A100-SXM4-40GB"
    assert run.facts["gpu"].origin == "log"
    assert run.number("gpu_count") in (None, 1)  # a machine of four is no run of four


def test_of_two_cards_none_is_known() -> None:
    (run,) = read(SMI.format(n=0, name="NVIDIA L4") + SMI.format(n=1, name="NVIDIA A10") + ROW)
    assert "gpu" not in run.facts


def test_what_is_said_after_the_first_row_is_not_the_head() -> None:
    (run,) = read(
        ROW + "device: NVIDIA L4\nbatch_size: 3\nblock_size: 4\nn_layer: 5\n" + ROW.replace("iter 0", "iter 10")
    )
    assert "gpu" not in run.facts
    assert "batch_size" not in run.facts


WANTED = {"batch_size": 12, "learning_rate": 6e-4, "compile": True, "n_layer": 6, "dtype": "float16"}


@pytest.mark.parametrize(
    "text",
    [
        "{'batch_size': 12, 'learning_rate': 6e-4, 'compile': True, 'n_layer': 6, 'dtype': 'float16', 'x': f(3)}",
        "config: {\n  'batch_size': 12,\n  'learning_rate': 6e-4,\n  'model': {'compile': True, 'n_layer': 6},\n"
        "  'dtype': 'float16',\n}",
        '{"batch_size": 12, "learning_rate": 0.0006, "compile": true, "n_layer": 6, "dtype": "float16", "y": null}',
        "Namespace(batch_size=12, learning_rate=0.0006, compile=True, n_layer=6, dtype='float16')",
        "Settings\n  batch_size: 12\n  learning_rate: 0.0006\n  compile: True\n  n_layer: 6\n  dtype: float16\n",
        "batch_size = 12\nlearning_rate = 6e-4  # peak\ncompile = True\nn_layer = 6\ndtype = 'float16'\n",
        "--batch_size=12\n- learning_rate: 6e-4\n- compile: true\n- n_layer: 6\n- dtype: float16\n",
    ],
)
def test_settings(text: str) -> None:
    (run,) = read(text + "\n" + ROW)
    assert {name: run.value(name) for name in WANTED} == WANTED
    assert all(run.facts[name].origin == "log" for name in WANTED)


def test_a_fork_that_names_some_settings_does_not_have_nanogpts_others() -> None:
    head = "dataset: data\\shakespeare_char\nvocab size: 65\nmodel parameters: 112,577\ntokens per iteration: 512\n"
    head += "[DEBUG] Initializing GPT2 model: vocab_size=65, n_embd=64, n_head=2, n_layer=2\n"
    head += "[DEBUG] Entering the training loop for 2000 iterations.\n"
    (run,) = read(head + ROW)
    told = {"dataset": "shakespeare_char", "vocab_size": 65, "n_embd": 64, "n_head": 2, "n_layer": 2, "max_iters": 2000}
    assert {name: run.value(name) for name in told} == told
    assert (run.value("tokens_per_iteration"), run.value("parameters")) == (512, 112_577)
    assert "batch_size" not in run.facts
    assert run.conflicts == ()


def test_two_settings_alone_may_be_anything() -> None:
    settings = Settings()
    assert settings.read("batch_size: 12") == {}
    assert settings.read("dropout: 0.1") == {}


@pytest.mark.parametrize(
    "line", ["a" * 65_000, "{" * 65_000, "(" * 65_000, "n_layer=" * 8_000, "|" * 65_000, "gpu: " * 12_000]
)
def test_a_long_line_is_read_in_no_time(line: str) -> None:
    start = time.perf_counter()
    Settings().read(line)
    card_of(line)
    assert time.perf_counter() - start < 1.0


def settings_of(*lines: str) -> dict[str, object]:
    """What is known after the last of these lines."""
    settings = Settings()
    found: dict[str, object] = {}
    for line in lines:
        found |= settings.read(line)
    return found


@pytest.mark.parametrize(("inner", "found"), [(299, True), (300, False)])
def test_a_dict_of_up_to_301_lines(inner: int, found: bool) -> None:
    assert settings_of("{'n_layer': 6,", *["'x': 1,"] * inner, "}") == ({"n_layer": 6} if found else {})


@pytest.mark.parametrize(("more", "found"), [(0, True), (1, False)])
def test_a_dict_of_up_to_20000_characters(more: int, found: bool) -> None:
    line = "{'n_layer': 6, 'x': '%s'}"
    text = line % ("y" * (20_000 - len(line) + 2 + more))
    assert len(text) == 20_000 + more
    assert settings_of(text) == ({"n_layer": 6} if found else {})


@pytest.mark.parametrize(("braces", "found"), [(99, True), (100, False)])
def test_a_dict_with_up_to_100_braces(braces: int, found: bool) -> None:
    assert settings_of("{'n_layer': 6, 'x': '%s'}" % ("{}" * braces)) == ({"n_layer": 6} if found else {})


@pytest.mark.parametrize(("depth", "found"), [(4, True), (5, False)])
def test_a_dict_inside_others(depth: int, found: bool) -> None:
    nested = "{'x': " * depth + "{'n_layer': 6}" + "}" * depth
    assert settings_of(nested) == ({"n_layer": 6} if found else {})


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["n_layer: 6", "n_head: 4"], {}),
        (["n_layer: 6", "n_head: 4", "n_embd: 8"], {"n_layer": 6, "n_head": 4, "n_embd": 8}),
        (["n_layer: 6", "n_layer: 7", "n_layer: 8"], {}),  # three names, not three lines
        (["n_layer: 6", "n_head: 4", "other: 8"], {}),
        (["n_layer: 6", "n_head: 4", "n_embd: many"], {}),
        (["n_layer: 6", "n_head: 4", "device: 'gpu'"], {}),
        (["n_layer: 6", "n_head: 4", "device: cuda:1"], {"n_layer": 6, "n_head": 4, "device": "cuda:1"}),
        (["dataset: a/b/", "n_layer: 6", "n_head: 4"], {"dataset": "b", "n_layer": 6, "n_head": 4}),
        (["x n_layer=6 y"], {}),  # one pair may be anything
        (["x n_layer=6, n_head=4 y"], {"n_layer": 6, "n_head": 4}),
        (["max_iters: 5"], {"max_iters": 5}),
        (["world size: 8"], {"gpu_count": 8}),
        (["using device: cuda:0"], {"device": "cuda"}),
        (["model params: 1,234"], {"parameters": 1234}),
        (["out_dir: a", "always_save_checkpoint: True", "wandb_log: False"], {}),  # which say nothing of the training
    ],
)
def test_settings_line_by_line(lines: list[str], found: dict[str, object]) -> None:
    assert settings_of(*lines) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x {'n_layer': 6} y", {"n_layer": 6}),
        ("{'n_layer': 6", {}),
        ("{'n_layer': six}", {}),
        ("{'n_layer': 'six'}", {}),
        ("{'n_layer': None, 'n_head': 4}", {"n_head": 4}),
        ("{3: 6, 'n_head': 4}", {"n_head": 4}),
        ("Config(n_layer=6, *x)", {"n_layer": 6}),
        ("{'bias': true, 'compile': false}", {"bias": True, "compile": False}),
        ("{'learning_rate': 1e-3, 'weird': 1}", {"learning_rate": 1e-3}),
    ],
)
def test_a_dict_in_one_line(text: str, found: dict[str, object]) -> None:
    assert settings_of(text) == found
    assert settings_of(text, "}", "x n_layer=6, n_head=4") == found | {"n_layer": 6, "n_head": 4}
