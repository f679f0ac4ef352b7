"""A label for every code of the contract."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args

import pytest

from nanopace import run
from nanopace.diagnosis import result
from nanopace.sources.formats.table import BUILT_IN
from nanopace.views.report import parts_of_phases
from nanopace.wording import labels
from nanopace.wording.catalog import words
from nanopace.wording.numbers import LANGUAGES


@pytest.mark.parametrize(
    ("table", "codes"),
    [
        (labels.ORIGINS, get_args(run.Origin)),
        (labels.BECAUSE, get_args(run.Because)),
        (labels.ENDINGS, get_args(run.Ending)),
        (labels.METRICS, get_args(run.Metric)),
        (labels.STAGES, get_args(run.Stage)),
        (labels.CAUSES, get_args(result.Cause)),
        (labels.VERDICTS, get_args(result.Verdict)),
        (labels.FACTS, run.DERIVED_FACTS),
        (
            labels.PHASES,
            [f.name[:-2] for f in fields(result.Wall) if f.name.endswith("_s") and f.name != "total_s"],
        ),
        (
            labels.PARTS,
            [
                part
                for optimizer_s in (1, 0)
                for parts in parts_of_phases(
                    result.Phases(1, 1, optimizer_s, 1, 1, 1, 0, 0, 1),
                    result.Wall(7, 3, 0, 0, 3, 0, 0, 0, 1, 0, 0.5, True),
                ).values()
                for part in parts
            ],
        ),
    ],
)
def test_every_code_has_a_label_and_no_other(table: dict[str, str], codes: tuple[str, ...]) -> None:
    assert set(table) == set(codes)


def test_a_format_is_called_as_its_trainer_unless_it_has_a_label() -> None:
    assert {each.name: words("de").format(each.name) for each in BUILT_IN} == {
        "nanogpt": "nanoGPT",
        "nanochat": "nanochat",
        "nanopace": "nanopace",
        "ledger": "nanopace-Ledger",
        "modded-nanogpt": "modded-nanogpt",
        "parameter-golf": "parameter-golf",
        **dict.fromkeys(("build_nanogpt", "build_nanogpt_log"), "build-nanogpt"),
        "llama2c": "llama2.c",
        **dict.fromkeys(("llmc", "llmc_python", "llmc_log"), "llm.c"),
        **dict.fromkeys(("llmq", "llmq_json"), "LLM.Q"),
        "mingpt": "minGPT",
        "makemore": "makemore",
        **dict.fromkeys(("hf_trainer_state", "hf_console", "hf_table"), "Hugging Face Trainer"),
        "llama_factory": "LLaMA-Factory",
        "lightning": "Lightning",
        "tensorboard": "TensorBoard",
        **dict.fromkeys(("wandb_csv", "wandb"), "W&B"),
        "clock": "nanopace Clock",
        "torchtitan": "torchtitan",
        **dict.fromkeys(("megatron", "megatron-2021"), "Megatron"),
        **dict.fromkeys(("litgpt", "lit-gpt"), "litgpt"),
        **dict.fromkeys(("lingua", "lingua-metrics"), "lingua"),
        "autoresearch": "autoresearch",
    }


def test_an_origin_tells_how_it_was_inferred() -> None:
    inferred = run.Fact(500, "inferred", "row_spacing")
    assert words("en").origin(inferred) == "inferred: from the row spacing"
    assert words("en").origin(run.Fact(500, "config file")) == "from the config file"
    assert len({words(language).origin(inferred) for language in LANGUAGES}) == len(LANGUAGES)


def test_knobs_keep_their_names() -> None:
    assert words("de").fact("eval_interval") == "eval_interval"
    assert words("de").fact("parameters") == "Parameter"


def test_what_never_compiles_has_no_compilation() -> None:
    assert (words("en").cause("compile"), words("en").phase("startup")) == (
        "compilation and warm-up",
        "start-up and compilation",
    )
    for name in ("llmc", "llmq", "megatron"):
        assert words("en").cause("compile", name) == "warm-up"
        assert words("en").phase("startup", name) == "start-up"
    assert words("en").cause("compile", "nanogpt") == words("en").cause("compile")
    assert words("en").cause("compile", "nanogpt", compiles=False) == "warm-up"
    assert words("en").phase("startup", compiles=False) == "start-up"
    assert words("en").phase("evaluation", "llmc") == "evaluation"
