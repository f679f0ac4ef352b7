"""What a nanochat log contains besides its header: stages, tokens per step, the machine, and its own time count."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.run import Fact, Run
from nanopace.sources.runs import open_runs

from ..nanochat_logs import Program, speedrun

BASE, MID, SFT = Program(), Program("mid"), Program("sft", card="NVIDIA H100 80GB HBM3")
FIRST_WEEKS = Program(columns="", wrong_rate=True)


def runs_of(lines: Iterable[str]) -> list[Run]:
    file = io.BytesIO("".join(f"{line}\n" for line in lines).encode())
    file.name = "speedrun.log"
    return open_runs(file)


def run_of(lines: Iterable[str]) -> Run:
    (run,) = runs_of(lines)
    return run


# --- stages ----------------------------------------------------------------------------------------------------------


def test_stages_have_names() -> None:
    runs = runs_of(speedrun(BASE, MID, SFT))
    assert [run.stage for run in runs] == ["base", "mid", "sft"]
    assert [run.name for run in runs] == ["speedrun.log (base)", "speedrun.log (mid)", "speedrun.log (sft)"]
    assert [diagnose(run).source.stage for run in runs] == ["base", "mid", "sft"]


def test_a_run_that_is_alone_has_the_name_of_its_file() -> None:
    run = run_of(MID.lines())
    assert (run.name, run.stage) == ("speedrun.log", "mid")


@pytest.mark.parametrize(
    ("program", "stage"),
    [
        (BASE, "base"),  # the only one that prints its total
        (Program("mid", columns=""), "mid"),  # no total and no epoch
        (Program("mid"), None),  # or fine-tuning of the weeks after
        (Program("sft"), None),
    ],
)
def test_the_stage_of_rows_alone(program: Program, stage: str | None) -> None:
    assert run_of(program.rows()).stage == stage


@pytest.mark.parametrize(
    ("around", "stage"),
    [
        (["GPU: NVIDIA H100 80GB HBM3 | Peak FLOPS (BF16): 9.89e+14"], "sft"),  # which midtraining never printed
        (["COMPUTE_DTYPE: torch.bfloat16 (auto-detected)"], "sft"),
        (["+ torchrun --nproc_per_node=8 -m scripts.mid_train -- --run=dummy"], "mid"),
        (["+ torchrun --nproc_per_node=8 -m scripts.chat_sft -- --run=dummy"], "sft"),
        (["Step 00000/00700 | Training loss: 1.211234| lrm: 1.000000| num_tokens: 12,345"], "mid"),
    ],
)
def test_the_stage_by_what_is_around_the_rows(around: list[str], stage: str) -> None:
    assert run_of([*around, *Program("sft").rows()]).stage == stage


def test_the_directory_of_the_checkpoints_is_believed_most() -> None:
    assert run_of(SFT.lines()).stage == "sft"
    assert run_of([*SFT.header(), *SFT.rows(), *MID.end()]).stage == "mid"


def test_a_score_in_chats_is_that_of_fine_tuning() -> None:
    lines = [*Program("sft").rows(), "Step 00041 | ChatCORE: 0.2711 | ChatCORE_cat: 0.3011"]
    assert run_of(lines).stage == "sft"


def test_stages_without_their_headers_are_no_restart() -> None:
    base, mid = runs_of([*BASE.rows(), *Program("mid", columns="").rows()])
    assert (base.stage, mid.stage) == ("base", "mid")
    assert not base.restarts
    assert len(base.rows) == len(mid.rows) == 40


def test_rows_without_a_time_are_told_of() -> None:
    tuning = [f"Step {n:05d}/00700 | Training loss: 1.211234| lrm: 1.000000| num_tokens: 12,345" for n in range(7)]
    rewards = [f"Step {n}/467 | Average reward: 0.25 | Average sequence length: 102.50" for n in range(3)]
    run = run_of([*BASE.lines(), "Target examples per step: 32", *tuning, "Calculated number of steps: 467", *rewards])
    told = {finding.code: finding.numbers for finding in diagnose(run).findings if finding.code.startswith("untimed")}
    assert told == {"untimed_sft": {"rows": 7}, "untimed_rl": {"rows": 3}}


@pytest.mark.parametrize(
    ("column", "without", "gone"),
    [
        ("", "lrm: 1.00 | ", ""),
        ("mem: 31.2GB | ", "", ""),
        ("z: 0.31 | mem: 31.2GB | t: 61C | ", "", ""),
        ("", " | mfu: 41.00", "mfu"),
        ("", " | tok/sec: ", "rate"),
    ],
)
def test_a_forks_columns_do_no_harm(column: str, without: str, gone: str) -> None:
    plain = run_of(Program().rows())
    rows = [
        re.sub(r"(?= \| total time)", f" | {column}x: 1" if column else "", line.replace("dt:", f"{column}dt:"))
        for line in Program().rows()
    ]
    rows = [re.sub(rf"{re.escape(without)}[\d,]*" if gone == "rate" else re.escape(without), "", line) for line in rows]
    run = run_of(rows)
    assert list(run.rows.ms) == list(plain.rows.ms)
    assert list(run.rows.loss) == list(plain.rows.loss)
    assert (run.rows[5].mfu is None) == (gone == "mfu")
    assert (run.value("tokens_per_iteration") is None) == (gone == "rate")


# --- the tokens of a step --------------------------------------------------------------------------------------------


def test_an_excerpt_tells_its_tokens() -> None:
    run = run_of(Program(first=3000, gpus=1, accumulation=8).rows())
    assert run.facts["tokens_per_iteration"] == Fact(65_536, "inferred", "printed_rate")
    assert diagnose(run).throughput.tokens_per_s == pytest.approx(65_536 / 0.5, rel=0.002)


@pytest.mark.parametrize("columns", ["norm", "eta", "epoch", "bf16"])
def test_columns_that_came_later_show_that_the_rate_is_right(columns: str) -> None:
    run = run_of(Program(first=3000, columns=columns).rows())
    assert run.value("tokens_per_iteration") == Program().batch


@pytest.mark.parametrize("wrong", [True, False])
def test_a_rate_that_may_be_of_the_first_weeks_tells_nothing(wrong: bool) -> None:
    run = run_of(Program(first=3000, columns="", wrong_rate=wrong).rows())
    assert run.value("tokens_per_iteration") is None


@pytest.mark.parametrize("micro_batch", [1000, 1536, 20_480, 65_536])
def test_any_batch_is_told_exactly_by_many_rows(micro_batch: int) -> None:
    program = Program(first=3000, micro_batch=micro_batch, steps=200)
    assert run_of(program.rows()).value("tokens_per_iteration") == program.batch


def test_a_batch_that_changes_is_not_guessed() -> None:
    rows = [*Program(first=3000).rows(), *Program(first=3040, accumulation=4).rows()]
    assert run_of(rows).value("tokens_per_iteration") is None


def test_the_header_is_believed_and_a_rate_that_contradicts_it_is_named() -> None:
    run = run_of(FIRST_WEEKS.lines())
    assert run.facts["tokens_per_iteration"] == Fact(65_536, "log")
    (finding,) = (finding for finding in diagnose(run).findings if finding.code == "printed_rate_wrong")
    assert finding.numbers == {"printed_batch": 32_768, "batch": 65_536}
    assert run_of(BASE.lines()).told_tokens is None


SHAPE = "'sequence_len': 2048, 'vocab_size': 65536, 'n_layer': 20, 'n_head': 10, 'n_kv_head': 10, 'n_embd': 1280"


def test_the_config_of_a_model_tells_what_a_token_costs() -> None:
    run = run_of([*MID.header(), f"INFO - Building model with config: {{{SHAPE}}}", *MID.rows()])
    assert run.number("flops_per_token") == pytest.approx(3.491758e9, rel=1e-6)  # as base training prints it
    assert run.facts["flops_per_token"].because == "model_shape"
    assert run.value("n_embd") == 1280
    assert "n_kv_head" not in run.facts


# --- the card --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [True, False])
def test_an_mfu_of_0_throughout_is_no_figure(header: bool) -> None:
    found = diagnose(run_of(Program(mfu=0.0, columns="epoch bf16").lines(header=header)))
    assert found.mfu.printed_last is None
    assert found.mfu.steady_printed is None
    assert "mfu_zero" not in {finding.code for finding in found.findings}


def test_a_card_that_is_in_no_table_is_still_the_card() -> None:
    found = diagnose(run_of(Program(card="NVIDIA Voodoo 9000", peak="1.00e+14").lines()))
    assert (found.mfu.card_name, found.mfu.card_tflops) == ("NVIDIA Voodoo 9000", None)
    codes = {finding.code for finding in found.findings}
    assert "card_without_peak" in codes
    assert "mfu_card_unknown" not in codes


def test_what_a_script_says_of_the_machine() -> None:
    lines = ["Detected small/limited GPU setup (gpus=2, vram_mib=6144).", *BASE.rows(), *MID.header(), *MID.rows()]
    alone, told = runs_of(lines)
    assert (alone.value("gpu_count"), alone.value("gpu_memory_gb")) == (2, 6.0)
    assert (told.value("gpu_count"), told.value("gpu_memory_gb")) == (4, 6.0)  # the program knows better
    assert run_of(["Detected 8 GPU(s)", *BASE.rows()]).value("gpu_count") == 8


# --- time ------------------------------------------------------------------------------------------------------------


def test_the_trainers_own_count_of_time_is_ours() -> None:
    run = run_of(Program(steps=400).lines())
    ours = sum(row.ms for row in run.rows if row.iteration > 10) / 1000
    assert run.told_training_s == pytest.approx(ours, abs=0.3)  # printed in hundredths of a minute
    assert diagnose(run).throughput.told_training_s == run.told_training_s


def test_a_count_in_hundredths_of_a_minute_says_nothing_of_seconds() -> None:
    run = run_of(Program(steps=40).lines())
    assert run.told_training_s == pytest.approx(14.4)
    assert diagnose(run).throughput.told_training_s is None


@pytest.mark.parametrize("first", range(3000, 3005))  # whose rows are a little quicker or slower than a step
def test_an_excerpt_holds_no_start_up(first: int) -> None:
    found = diagnose(run_of(Program(first=first).rows()))
    assert found.startup is None
    assert found.wall.startup_s == 0


@pytest.mark.parametrize("program", [BASE, MID])
def test_the_first_step_of_a_program_holds_its_compilation_and_no_evaluation(program: Program) -> None:
    found = diagnose(run_of(program.lines()))
    assert found.startup is not None
    assert found.wall.startup_s == pytest.approx(9.0, rel=0.01)
    (finding,) = (finding for finding in found.findings if finding.code.startswith("startup"))
    assert finding.code == "startup_compile"


def test_the_last_core_and_the_best() -> None:
    scores = [f"Step {step:05d} | CORE metric: {core}" for step, core in ((20, 0.1), (30, 0.3), (40, 0.2))]
    found = diagnose(run_of([*BASE.lines(), *scores]))
    assert (found.loss.core, found.loss.core_iteration) == (0.2, 40)
    assert (found.loss.best_core, found.loss.best_core_iteration) == (0.3, 30)
    (finding,) = (finding for finding in found.findings if finding.code == "core_metric")
    assert finding.numbers["best_core"] == 0.3
    assert diagnose(run_of(BASE.lines())).loss.core is None


# --- real logs -------------------------------------------------------------------------------------------------------


def test_a_real_speedrun(shared_logs: Path) -> None:
    base, mid = open_runs(shared_logs / "wild" / "nc_chirag9127_speedrun.log.gz")
    assert (base.stage, mid.stage) == ("base", "mid")
    assert [len(base.rows), len(mid.rows)] == [21_400, 770]
    assert mid.untimed == {"sft": 681}
    for run in (base, mid):
        ours = sum(row.ms for row in run.rows if row.iteration > 10) / 1000
        assert run.told_training_s == pytest.approx(ours, abs=0.4)
        assert (run.value("gpu_count"), run.value("tokens_per_iteration"), run.told_tokens) == (4, 524_288, 262_144)
    assert mid.number("flops_per_token") == pytest.approx(base.number("flops_per_token"), rel=1e-6)
    assert diagnose(base).loss.core == 0.2124


def test_a_real_run_of_a_small_card(shared_logs: Path) -> None:
    base, tuned = open_runs(shared_logs / "wild" / "nc_kwizzle_nanobot_run.log.gz")
    assert (base.stage, tuned.stage) == ("base", "sft")
    for run in (base, tuned):
        assert (run.value("gpu"), run.value("gpu_memory_gb")) == ("NVIDIA GeForce GTX 1660 SUPER", 6.0)
        assert "mfu_card_unknown" not in {finding.code for finding in diagnose(run).findings}
