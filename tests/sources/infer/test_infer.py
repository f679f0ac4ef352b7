from __future__ import annotations

import math
from pathlib import Path

import pytest

from nanopace.ledger.codec import to_json
from nanopace.record import replace
from nanopace.run import Evaluation, Fact, Origin, Row, Rows, Run
from nanopace.sources.infer.infer import complete
from nanopace.sources.infer.parameter_groups import shape_of_groups, vocabulary_of_groups
from nanopace.sources.infer.vocabulary_of_loss import vocabulary_of_loss
from nanopace.sources.runs import open_runs

from ..ledgers import run_event, steps
from ..nanogpt_logs import WHOLE_LOG, print_rows
from ..reading import read

NARROW = {
    "batch_size": 16,
    "gradient_accumulation_steps": 32,
    "block_size": 1024,
    "n_layer": 12,
    "n_embd": 384,
    "bias": False,
}


def groups(layers: int, width: int, vocabulary: int, block: int, bias: bool) -> dict[str, int]:
    """The parameter groups, counted from the tensors of nanoGPT's model."""
    matrices = [(vocabulary, width), (block, width)]
    vectors = [width] + [width] * bias
    for _ in range(layers):
        matrices += [(3 * width, width), (width, width), (4 * width, width), (width, 4 * width)]
        vectors += [width, width] + [width, width, 3 * width, width, 4 * width, width] * bias
    return {
        "decayed_tensors": len(matrices),
        "decayed_parameters": sum(a * b for a, b in matrices),
        "non_decayed_tensors": len(vectors),
        "non_decayed_parameters": sum(vectors),
    }


# --- parameter groups ------------------------------------------------------------------------------------------------


def test_the_groups_of_gpt2() -> None:
    printed = groups(12, 768, 50304, 1024, bias=False)
    assert list(printed.values()) == [50, 124_354_560, 25, 19_200]
    assert shape_of_groups(printed) == {"n_layer": 12, "n_embd": 768, "bias": False}
    assert vocabulary_of_groups(printed, 123_590_000, None, None) == (50304, 1024)
    without_positions = 124_354_560 + 19_200 - 1024 * 768
    for off, found in ((5001, (50304, 1024)), (5002, (None, None))):  # it is printed in tens of thousands
        assert vocabulary_of_groups(printed, without_positions + off, None, None) == found
        assert vocabulary_of_groups(printed, without_positions - off, None, None) == found


@pytest.mark.parametrize(("rows", "known"), [(0, False), (1, False), (2, True), (2.5, False)])
def test_a_model_has_a_table_of_tokens_and_one_of_positions(rows: float, known: bool) -> None:
    printed = groups(2, 8, 0, 0, bias=False)
    printed["decayed_parameters"] += int(8 * rows)
    assert bool(shape_of_groups(printed)) == known


@pytest.mark.parametrize(
    ("name", "more"),
    [("decayed_tensors", 1), ("decayed_tensors", -8), ("non_decayed_tensors", 1), ("non_decayed_parameters", 1)],
)
def test_groups_of_another_model(name: str, more: int) -> None:
    printed = groups(2, 8, 65, 16, bias=False)
    assert shape_of_groups(printed)
    assert shape_of_groups(printed | {name: printed[name] + more}) == {}
    assert shape_of_groups({each: printed[each] for each in printed if each != name}) == {}


@pytest.mark.parametrize(("known", "found"), [(80, 1), (81, None), (82, None)])
def test_a_table_that_is_larger_than_both(known: int, found: int | None) -> None:
    """65 tokens and 16 positions: what is known about one leaves at least a row for the other."""
    printed = groups(2, 8, 65, 16, bias=False)
    assert vocabulary_of_groups(printed, None, None, known) == (found, None)
    assert vocabulary_of_groups(printed, None, known, None) == (None, found)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("layers", "width", "vocabulary", "block"), [(1, 8, 65, 16), (6, 384, 65, 256), (48, 1600, 50257, 1024)]
)
def test_shape_of_groups(layers: int, width: int, vocabulary: int, block: int, bias: bool) -> None:
    printed = groups(layers, width, vocabulary, block, bias)
    assert shape_of_groups(printed) == {"n_layer": layers, "n_embd": width, "bias": bias}
    assert vocabulary_of_groups(printed, None, None, block) == (vocabulary, None)
    assert vocabulary_of_groups(printed, None, vocabulary, None) == (None, block)
    assert vocabulary_of_groups(printed, None, None, None) == (None, None)


# --- vocabulary ------------------------------------------------------------------------------------------------------


def started_at(loss: float, then: float = 3.5) -> Run:
    return Run("log", "nanogpt", Rows([Row(0, 1.0, loss), Row(1, 1.0, then)]), (Evaluation(0, loss, loss, row=0),))


@pytest.mark.parametrize(
    ("loss", "then", "vocabulary"),
    [
        (10.8727, 3.5, 50304),
        (10.9913, 3.5, 50304),
        (4.2823, 1.5, 65),
        (4.2823, 3.1, None),  # a GPT-2 that is finetuned
        (5.58, 2.0, 256),
        (10.41, 3.5, None),  # 32000 or 32768
        (11.15, 3.5, None),  # a wide model with 50304, or a narrow one with 65536
        (3.2, 3.0, None),
        (math.inf, 3.0, None),
    ],
)
def test_vocabulary_of_loss(loss: float, then: float, vocabulary: int | None) -> None:
    assert vocabulary_of_loss(started_at(loss, then), None) == vocabulary


@pytest.mark.parametrize(
    ("vocabulary", "width", "least", "most"),
    [(4096, None, -0.03, 0.35), (256, None, -0.03, 0.15), (4096, 384, -0.03, 0.05 + 0.0003 * 384)],
)
def test_how_far_a_first_loss_may_be_from_its_vocabulary(
    vocabulary: int, width: int | None, least: float, most: float
) -> None:
    def found(excess: float) -> int | None:
        return vocabulary_of_loss(started_at(math.log(vocabulary) + excess, 1.0), width)

    assert found(least + 0.001) == found(most - 0.001) == vocabulary
    assert found(least - 0.001) is None
    assert found(most + 0.001) is None


def test_how_far_the_loss_of_characters_falls() -> None:
    assert vocabulary_of_loss(started_at(4.2, 0.59 * 4.2), None) == 65
    assert vocabulary_of_loss(started_at(4.2, 0.61 * 4.2), None) is None


def test_a_first_loss_tells_the_vocabulary_of_a_model_from_scratch() -> None:
    run = started_at(10.8727)
    assert complete(run).facts["vocab_size"] == Fact(50304, "inferred", "first_loss")
    assert "vocab_size" not in complete(replace(run, facts={"init_from": Fact("gpt2", "log")})).facts


def test_the_width_may_decide() -> None:
    assert vocabulary_of_loss(started_at(11.15), 384) == 65536


# --- facts and their order -------------------------------------------------------------------------------------------


def test_flag_before_log_before_config(tmp_path: Path) -> None:
    config = tmp_path / "config.py"
    config.write_text("batch_size = 32\nn_embd = 384\nlearning_rate = 1e-3\nn_layer = 12\n")
    (run,) = read(WHOLE_LOG, config=config, overrides={"n_embd": 1024}, gpu="RTX 4070")
    assert run.facts["batch_size"] == Fact(8, "log")
    assert run.facts["n_embd"] == Fact(1024, "flag")
    assert run.facts["learning_rate"] == Fact(1e-3, "config file")
    assert run.facts["gpu"] == Fact("RTX 4070", "flag")
    assert ("batch_size", 8, 32) in run.conflicts
    assert not [conflict for conflict in run.conflicts if conflict[0] in ("n_embd", "n_layer")]


def test_a_config_that_the_groups_disprove(tmp_path: Path) -> None:
    config = tmp_path / "config.py"
    config.write_text("n_embd = 384\n")
    log = (
        "num decayed parameter tensors: 50, with 124,354,560 parameters\n"
        "num non-decayed parameter tensors: 25, with 19,200 parameters\n" + print_rows()
    )
    (run,) = read(log, config=config)
    assert ("n_embd", 384, 768) in run.conflicts
    assert run.facts["n_layer"] == Fact(12, "inferred", "parameter_groups")


def test_defaults_only_with_a_config(tmp_path: Path) -> None:
    (with_header,) = read(WHOLE_LOG)
    assert with_header.facts["learning_rate"] == Fact(6e-4, "inferred", "nanogpt_default")
    assert "dtype" not in with_header.facts
    (without,) = read(print_rows())
    assert "learning_rate" not in without.facts
    assert "batch_size" not in without.facts
    config = tmp_path / "config.py"
    config.write_text("n_layer = 6\n")
    (with_file,) = read(print_rows(), config=config)
    assert with_file.facts["batch_size"] == Fact(12, "inferred", "nanogpt_default")
    (with_flag,) = read(print_rows(), overrides={"n_layer": 6})
    assert "batch_size" not in with_flag.facts


@pytest.mark.parametrize(
    ("printed", "bias"), [("123.65", None), ("123.59", False), ("123.55", False), ("124.60", False)]
)
def test_a_default_that_the_number_of_parameters_contradicts_does_not_hold(printed: str, bias: bool | None) -> None:
    """A resumed model has the biases of its checkpoint: one that began from OpenAI's GPT-2 has 123.65M parameters."""
    head = "Overriding config with c.py:\ninit_from = 'gpt2'\nlog_interval = 10\nOverriding: init_from = resume\n"
    head += f"tokens per iteration will be: 491,520\nnumber of parameters: {printed}M\n"
    (run,) = read(head + print_rows())
    assert (run.facts["bias"].value if "bias" in run.facts else None) == bias
    assert run.facts["n_layer"] == Fact(12, "inferred", "nanogpt_default")


def test_an_old_header_has_other_defaults() -> None:
    old = WHOLE_LOG.replace("tokens per iteration will be: 524,288\n", "")
    assert "learning_rate" not in read(old)[0].facts


def test_the_helping_facts_are_not_handed_out() -> None:
    assert not [name for name in read(WHOLE_LOG)[0].facts if "decayed" in name]


# --- the model and its tokens ----------------------------------------------------------------------------------------


def test_intervals() -> None:
    (run,) = read(print_rows())
    assert run.facts["log_interval"] == Fact(200, "inferred", "row_spacing")
    assert run.facts["eval_interval"] == Fact(500, "inferred", "row_spacing")


def test_parameters_and_flops() -> None:
    (run,) = read(print_rows(), overrides=NARROW | {"vocab_size": 50304})
    assert run.facts["parameters"] == Fact(40_560_000, "inferred", "model_shape")
    assert run.number("flops_per_token") == pytest.approx(300.0e6, rel=1e-3)
    (wide,) = read(print_rows(), overrides=NARROW | {"vocab_size": 50304, "n_embd": 768})
    assert wide.number("flops_per_token") == pytest.approx(854.8e6, rel=1e-4)
    assert wide.number("flops_per_token_causal") == pytest.approx(798.2e6, rel=1e-4)


def test_what_causal_attention_saves_is_taken_from_what_the_trainer_counts(tmp_path: Path) -> None:
    """Lookup tables are weights, but cost nothing: six operations for each would be too many."""
    config = {"n_layer": 12, "n_head": 12, "n_embd": 768, "block_size": 1024}
    events = [run_event(config=config, parameters=201_000_000, flops_per_token=855e6), *steps(0, 3)]
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text("".join(f"{to_json(event)}\n" for event in events))
    (run,) = open_runs(ledger)
    assert run.number("flops_per_token") == 855e6
    assert run.number("flops_per_token_causal") == 855e6 - 6 * 12 * 768 * 1024


def test_the_first_weeks_counted_the_positions_too() -> None:
    (run,) = read(
        "number of parameters: 124.37M\n" + print_rows(mfu=False),
        overrides=NARROW | {"vocab_size": 50304, "n_embd": 768},
    )
    assert run.facts["parameters"] == Fact(123_587_328, "inferred", "model_shape")


def test_a_printed_count_that_does_not_fit_stays() -> None:
    (run,) = read("number of parameters: 99.00M\n" + print_rows(), overrides=NARROW | {"vocab_size": 50304})
    assert run.facts["parameters"] == Fact(99_000_000, "log")


@pytest.mark.parametrize("positions", [0, 1024 * 384])
def test_a_printed_count_is_rounded_to_ten_thousand(positions: int) -> None:
    def known(more: int) -> Fact:
        printed = {"parameters": Fact(40_560_000 + positions + more, "log"), "vocab_size": Fact(50304, "log")}
        facts = {name: Fact(value, "log") for name, value in NARROW.items()}
        return complete(Run("log", "nanogpt", Rows([Row(0, 1.0)]), facts=facts | printed)).facts["parameters"]

    assert known(5001).value == known(-5001).value == 40_560_000
    assert known(5002) == Fact(40_560_000 + positions + 5002, "log")
    assert known(-5002) == Fact(40_560_000 + positions - 5002, "log")


@pytest.mark.parametrize(
    ("per_gpu", "gpus"), [(1000 / 1.029, 1), (1000 / 1.031, None), (250.0 / 0.971, 4), (250.0 / 0.969, None)]
)
def test_gpus_are_counted_within_three_percent(
    monkeypatch: pytest.MonkeyPatch, per_gpu: float, gpus: int | None
) -> None:
    monkeypatch.setattr("nanopace.sources.infer.infer.seconds_of_work", lambda *_: per_gpu * 1e9 / 312e12)
    facts = {"tokens_per_iteration": Fact(1000, "log"), "flops_per_token": Fact(1e9, "log")}
    run = complete(Run("log", "nanogpt", Rows([Row(0, 1.0)]), facts=facts))
    assert run.number("gpu_count") == gpus


@pytest.mark.parametrize(("estimate", "tokens"), [(2019.0, 2000), (1981.0, 2000), (2021.0, 2021), (1979.0, 1979)])
def test_tokens_are_whole_batches_within_one_percent(
    monkeypatch: pytest.MonkeyPatch, estimate: float, tokens: int
) -> None:
    monkeypatch.setattr("nanopace.sources.infer.infer.seconds_of_work", lambda *_: estimate / 2 * 1e9 / 312e12)
    facts = {"batch_size": Fact(10, "log"), "block_size": Fact(100, "log"), "gpu_count": Fact(2, "log")}
    run = complete(Run("log", "nanogpt", Rows([Row(0, 1.0)]), facts={**facts, "flops_per_token": Fact(1e9, "log")}))
    assert run.number("tokens_per_iteration") == tokens


def test_tokens_of_the_batch() -> None:
    (run,) = read(print_rows(), overrides=NARROW)
    assert run.facts["tokens_per_iteration"] == Fact(524_288, "inferred", "batch_shape")


@pytest.mark.parametrize("start", [0, 1000])
def test_tokens_of_the_mfu(start: int) -> None:
    """Also if the process's first mfu, which is not smoothed, is cut off."""
    log = print_rows(0, 20_000, log_interval=100)
    log = log[log.index(f"iter {start}:") if start else 0 :]
    shape = {"n_layer": 12, "n_embd": 768, "block_size": 1024, "bias": False, "vocab_size": 50304}
    (run,) = read(log, overrides=shape)
    assert run.facts["tokens_per_iteration"] == Fact(524_288, "inferred", "mfu_time_parameters")


def test_tokens_that_contradict_the_batch() -> None:
    (run,) = read(WHOLE_LOG.replace("524,288", "491,520"))
    assert run.conflicts == (("tokens_per_iteration", 491_520, 524_288),)


@pytest.mark.parametrize("gpus", [1, 8])
def test_gpus(gpus: int) -> None:
    """nanoGPT's mfu is for one GPU, its tokens are for all."""
    log = WHOLE_LOG.replace("524,288", f"{524_288 * gpus:,}").replace("_steps = 64", f"_steps = {64 * gpus}")
    (run,) = read(log)
    assert run.facts["gpu_count"] == Fact(gpus, "inferred", "mfu_time_parameters")
    assert run.conflicts == ()


def test_the_peak_of_the_printed_mfu() -> None:
    assert read(print_rows())[0].facts["printed_peak_tflops"] == Fact(312.0, "inferred", "trainer")


def test_other_formats_are_left_alone() -> None:
    run = Run("log", "nanochat", Rows([Row(0, 1.0), Row(1, 1.0)]), facts={"n_layer": Fact(20, "log")})
    assert complete(run).facts.keys() == {"n_layer", "log_interval"}


def test_our_own_knobs_are_not_nanogpts() -> None:
    (run,) = read(WHOLE_LOG)
    assert run.facts["learning_rate"].because == "nanogpt_default"
    assert {"seed", "save_interval", "keep_last", "eval_train", "overwrite"}.isdisjoint(run.facts)


def test_a_ledger_that_does_not_count_its_parameters() -> None:
    shape = {name: Fact(value, "log") for name, value in {**NARROW, "vocab_size": 50304}.items()}
    run = complete(Run("a", "ledger", Rows([Row(0, 1.0)]), facts=shape))
    assert run.facts["parameters"] == Fact(40_560_000, "inferred", "model_shape")
    assert run.facts["flops_per_token"].because == "model_shape"
    told = complete(Run("a", "ledger", Rows([Row(0, 1.0)]), facts=shape | {"parameters": Fact(40_560_001, "log")}))
    assert told.facts["parameters"] == Fact(40_560_001, "log")


# --- the peak of a printed mfu ---------------------------------------------------------------------------------------


def of_peak(tflops: float, origin: Origin = "log") -> Fact:
    """What is known of the peak after 20 steps on 2 GPUs, if the trainer always divides by 989 TFLOP/s."""
    flops, tokens = 5e8, 65_536
    times = [800.0 + 3 * step for step in range(20)]
    rows = [
        Row(step, ms, 3.0, round(flops * tokens / 2 / (ms / 1000) / (tflops * 1e12), 4))
        for step, ms in enumerate(times)
    ]
    facts = {
        "flops_per_token": Fact(flops, origin),
        "tokens_per_iteration": Fact(tokens, "log"),
        "gpu_count": Fact(2, "log"),
        "printed_peak_tflops": Fact(989.0, "inferred", "trainer"),
    }
    return complete(Run("log", "nanochat", Rows(rows), facts=facts, mfu_smoothing=None)).facts["printed_peak_tflops"]


def test_a_fork_may_divide_by_another_peak() -> None:
    other = of_peak(62.0)
    assert (other.value, other.because) == (pytest.approx(62.0, rel=1e-3), "printed_mfu")
    assert of_peak(989.0) == of_peak(985.0) == Fact(989.0, "inferred", "trainer")


def test_flops_that_the_log_does_not_print_prove_no_other_peak() -> None:
    assert of_peak(62.0, "inferred") == Fact(989.0, "inferred", "trainer")


def test_an_mfu_of_few_digits_proves_no_other_peak() -> None:
    """Rounded to 0.01%, 0.05% leaves a tenth open."""
    assert of_peak(40_000.0) == Fact(989.0, "inferred", "trainer")
    assert of_peak(700.0).because == "printed_mfu"
