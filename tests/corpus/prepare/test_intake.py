from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from nanopace.corpus.prepare import intake
from nanopace.corpus.prepare.intake import all_pieces, batches
from nanopace.corpus.prepare.provenance import Counts
from nanopace.corpus.prepare.recipe import Inputs, Recipe, inputs_of


def rows(path: Path, texts: Sequence[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def read(files: list[Path]) -> Inputs:
    return inputs_of(files, Recipe(name="x", val_fraction=0.5))


def test_duplicates_are_dropped_over_batches_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "_MOST_PIECES", 7)
    texts = [f"text {number % 40}" for number in range(100)]
    inputs = read([rows(tmp_path / "a.jsonl", texts), rows(tmp_path / "b.jsonl", [*texts, "new"])])
    found = list(batches(inputs))
    kept = [piece.text for batch in found for _, piece in batch.pieces]
    assert kept == [*texts[:40], "new"]
    assert sum(batch.counts.documents for batch in found) == 41
    assert sum(batch.counts.duplicates for batch in found) == 160
    assert found[-1].done == inputs.total
    assert [batch.done for batch in found] == sorted(batch.done for batch in found)


def test_a_document_has_its_split_wherever_it_is(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(300)]
    splits = []
    for order in (texts, texts[::-1]):
        inputs = read([rows(tmp_path / "a.jsonl", order)])
        assert inputs.held_out is None
        splits.append({piece.text: split for batch in batches(inputs) for split, piece in batch.pieces})
    assert splits[0] == splits[1]
    assert 100 < list(splits[0].values()).count("val") < 200


def test_progress_counts_the_bytes_of_all_files(tmp_path: Path) -> None:
    files = [rows(tmp_path / name, texts) for name, texts in (("a.jsonl", ["a" * 30]), ("b.jsonl", []), ("c", ["c"]))]
    sizes = [path.stat().st_size for path in files]
    found = [done for done, _ in all_pieces(read(files))]
    assert found == [sizes[0], sizes[0], sum(sizes), sum(sizes)]  # each text, and its held-out end


def test_replaced_characters_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "\\udc00"}\n' * 2)
    found = list(batches(read([tmp_path / "a.jsonl"])))
    assert found[0].counts == Counts(documents=1, duplicates=1, replaced=3)
