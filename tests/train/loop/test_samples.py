"""Samples of the model's text during training: on the clock, in the ledger, and without influence on training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nanopace import diagnose, open_run
from nanopace.config import TrainConfig
from nanopace.corpus.tokenizers.characters import Characters
from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer
from nanopace.errors import ConfigError
from nanopace.ledger import RunEvent, SampleEvent, read_ledger
from nanopace.train.loop import samples
from nanopace.train.loop.samples import write_sample

from ..processes import command, losses_of, run, torchrun
from ..runs import run as trained
from ..tiny import SHAPE, tiny_model


def test_training_is_the_same_with_and_without(corpus: Path, tmp_path: Path) -> None:
    """Bit-identical, with dropout, whose random numbers a careless sample would draw."""
    _, without = trained(corpus, tmp_path / "a")
    _, told = trained(corpus, tmp_path / "b", sample_interval=8)
    assert told.losses == without.losses
    a, b = (next((tmp_path / name).rglob("step-00000021/model.safetensors")).read_bytes() for name in "ab")
    assert a == b
    assert without.all("sample") == []
    assert [each.iteration for each in told.all("sample")] == [0, 8, 16, 21]  # and one at the end
    assert all(0 < len(each.text) <= samples.TOKENS for each in told.all("sample"))
    assert told.all("sample")[0].text != told.all("sample")[-1].text


def test_the_time_is_a_phase_of_its_own(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setattr("nanopace.train.loop.loop.write_sample", lambda *_: time.sleep(0.25) or "x")  # type: ignore[func-returns-value]
    out_dir = tmp_path / "out"
    trained(corpus, out_dir, sample_interval=10, max_iters=20)
    with open(out_dir / "ledger.jsonl", "rb") as file:
        events = read_ledger(file).events
    assert next(each.ledger for each in events if isinstance(each, RunEvent)) == "1.6"
    assert [each.iteration for each in events if isinstance(each, SampleEvent)] == [0, 10, 20]
    found = diagnose(open_run(out_dir / "ledger.jsonl"))
    assert [(each.iteration, each.text) for each in found.samples] == [(0, "x"), (10, "x"), (20, "x")]
    assert found.phases.other_s >= 0.75
    assert max(filter(None, found.curves.row_ms)) < 250  # in no step
    assert (found.wall.stall_s or 0.0) < 0.25


def test_a_run_that_ends_at_a_sample_does_not_write_it_twice(corpus: Path, tmp_path: Path) -> None:
    _, told = trained(corpus, tmp_path / "out", sample_interval=5, max_iters=10)
    assert [each.iteration for each in told.all("sample")] == [0, 5, 10]
    assert told.all("phase").count("sample") == 3


def test_several_ranks_wait_for_the_first(shared_corpus: Path, tmp_path: Path) -> None:
    plain, sampled = tmp_path / "a", tmp_path / "b"
    for out_dir, every in ((plain, 0), (sampled, 6)):
        done = run(torchrun(2, *command(out_dir, shared_corpus, sample_interval=every, max_iters=12)))
        assert done.returncode == 0, done.stderr
    assert losses_of(sampled) == losses_of(plain)
    with open(sampled / "ledger.jsonl", "rb") as file:
        assert [each.iteration for each in read_ledger(file).events if isinstance(each, SampleEvent)] == [0, 6, 12]


def test_shards_are_refused() -> None:
    with pytest.raises(ConfigError, match="parallel=fsdp and sample_interval"):
        TrainConfig(parallel="fsdp", sample_interval=100)


def test_full_memory_costs_a_sample_and_no_more(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> str:
        raise torch.OutOfMemoryError

    monkeypatch.setattr("nanopace.train.loop.loop.write_sample", full)
    _, told = trained(corpus, tmp_path / "out", sample_interval=5, max_iters=10)
    assert told.all("sample") == []
    assert told.all("note")[0] == "step 0: no sample, since memory is full"
    assert told.losses.keys() == set(range(11))


def test_a_corpus_without_a_tokenizer_has_none_and_says_so(corpus: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"  # nanoGPT's files, without a meta.pkl
    bare.mkdir()
    for split in ("train", "val"):
        (bare / f"{split}.bin").write_bytes((corpus / f"{split}-00000.bin").read_bytes())
    _, told = trained(bare, tmp_path / "out", sample_interval=5, max_iters=5, vocab_size=300)
    assert told.all("sample") == []
    assert told.all("started")[0].choices["samples"] == "none: the corpus has no tokenizer"


def test_the_model_trains_on_and_a_diverged_one_is_silent() -> None:
    model = tiny_model().train()
    text = write_sample(model, bytes_tokenizer(), 1337, 20)
    assert model.training
    assert text == write_sample(model, bytes_tokenizer(), 1337, 20) != write_sample(model, bytes_tokenizer(), 1, 20)
    assert len(write_sample(model, Characters("abc"), 1337, 20)) == 20  # no new line in its alphabet
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    assert write_sample(model, bytes_tokenizer(), 1337, 20) == ""
    assert model.training
    assert SHAPE.block_size < 20  # it continued past its window
