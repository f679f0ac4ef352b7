from __future__ import annotations

import json
from pathlib import Path

import pytest

from nanopace.corpus.prepare import choose_tokenizer as fitting
from nanopace.corpus.prepare.choose_tokenizer import check_tokenizer, fitted
from nanopace.corpus.prepare.recipe import Recipe, inputs_of
from nanopace.errors import InputError


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    found = []
    for number in range(3):
        path = tmp_path / f"{number}.jsonl"
        lines = [{"text": f"def f{row}(): return 'file {number} ä'\n"} for row in range(100)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        found.append(path)
    return found


def test_every_kind(files: list[Path]) -> None:
    letters = set("def(): return 'file ä'\n0123456789")
    for kind, size in {"gpt2": 50257, "bytes": 257, "chars": len(letters)}.items():
        recipe = Recipe(name="x", tokenizer=kind)
        assert fitted(recipe, inputs_of(files, recipe), lambda _: None).vocab_size == size


def test_characters_of_all_files(files: list[Path]) -> None:
    files[2].write_text('{"text": "文"}\n')
    recipe = Recipe(name="x", tokenizer="chars")
    read: list[int] = []
    inputs = inputs_of(files, recipe)
    assert fitted(recipe, inputs, read.append).encode("文")
    assert read == sorted(read)
    assert read[-1] == inputs.total


def test_a_vocabulary_of_the_training_text_alone(files: list[Path]) -> None:
    recipe = Recipe(name="x", tokenizer="bpe", vocab_size=300)
    inputs = inputs_of(files, recipe)
    assert inputs.held_out is None
    trained = fitted(recipe, inputs, lambda _: None)
    assert trained.kind == "bpe"
    assert trained.hash == fitted(recipe, inputs, lambda _: None).hash
    texts = list(fitting._sampled(inputs, lambda _: None))
    assert 0.8 * 300 < len(texts) < 300


def test_a_sample_is_enough_of_much_text(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe(name="x", tokenizer="bpe", vocab_size=300)
    inputs = inputs_of(files, recipe)
    whole = list(fitting._sampled(inputs, lambda _: None))
    monkeypatch.setattr(fitting, "SAMPLE", inputs.total // 4)
    sample = list(fitting._sampled(inputs, lambda _: None))
    assert set(sample) < set(whole)
    assert 0.1 < len(sample) / len(whole) < 0.45
    assert {text.split("file ")[1][0] for text in sample} == {"0", "1", "2"}  # from everywhere
    monkeypatch.setattr(fitting, "_MULTIPLIER", 0)  # all are chosen, up to the bound
    assert sum(len(text.encode()) for text in fitting._sampled(inputs, lambda _: None)) <= inputs.total // 4 + 100


def test_files_without_a_character(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    recipe = Recipe(name="x", tokenizer="chars")
    with pytest.raises(InputError, match=r"a\.txt: contains no text"):
        fitted(recipe, inputs_of([tmp_path / "a.txt"], recipe), lambda _: None)


def test_a_vocabulary_that_cannot_be_had_is_noticed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    check_tokenizer(Recipe(name="x", tokenizer="bytes"))
    check_tokenizer(Recipe(name="x"))

    def missing() -> None:
        raise InputError("no vocabulary")

    monkeypatch.setattr("nanopace.corpus.tokenizers.tokenizer.gpt2", missing)
    with pytest.raises(InputError, match="no vocabulary"):
        check_tokenizer(Recipe(name="x"))
