from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.corpus.prepare import intake
from nanopace.corpus.prepare.dedup import Seen
from nanopace.corpus.prepare.intake import all_pieces, batches
from nanopace.corpus.prepare.journal import Counts, Place
from nanopace.corpus.prepare.recipe import Inputs, Recipe, inputs_of


def rows(path: Path, texts: Sequence[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def read(files: list[Path]) -> Inputs:
    return inputs_of(files, Recipe(name="x", val_fraction=0.5))


def nothing() -> Seen:
    return Seen(np.array([], dtype=np.uint64))


def test_duplicates_are_dropped_over_batches_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "_MOST_PIECES", 7)
    texts = [f"text {number % 40}" for number in range(100)]
    inputs = read([rows(tmp_path / "a.jsonl", texts), rows(tmp_path / "b.jsonl", [*texts, "new"])])
    found = list(batches(inputs, Place(), nothing()))
    kept = [piece.text for batch in found for _, piece in batch.pieces]
    assert kept == [*texts[:40], "new"]
    assert sum(batch.counts.documents for batch in found) == 41
    assert sum(batch.counts.duplicates for batch in found) == 160
    assert [digest for batch in found for digest in batch.new.tolist()] == [
        piece.digest for batch in found for _, piece in batch.pieces
    ]
    assert found[-1].done == inputs.total
    assert [batch.done for batch in found] == sorted(batch.done for batch in found)


def test_a_document_has_its_split_wherever_it_is(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(300)]
    splits = []
    for order in (texts, texts[::-1]):
        inputs = read([rows(tmp_path / "a.jsonl", order)])
        assert inputs.held_out is None
        splits.append(
            {piece.text: split for batch in batches(inputs, Place(), nothing()) for split, piece in batch.pieces}
        )
    assert splits[0] == splits[1]
    assert 100 < list(splits[0].values()).count("val") < 200


@settings(deadline=None, max_examples=40)
@given(
    files=st.lists(st.lists(st.text("ab \n", max_size=40), max_size=12), min_size=1, max_size=4),
    size=st.integers(1, 60),
    stop=st.integers(0, 10),
)
def test_going_on_is_like_never_having_stopped(
    files: list[list[str]], size: int, stop: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Long documents are in several pieces, duplicates too, and a batch may end between them."""
    folder = tmp_path_factory.mktemp("rows")
    inputs = read([rows(folder / f"{number}.jsonl", texts) for number, texts in enumerate(files)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intake, "BATCH", size)
        patch.setattr("nanopace.corpus.documents.pieces.PIECE", 16)
        whole = list(batches(inputs, Place(), nothing()))
        before = whole[:stop]
        place = before[-1].place if before else Place()
        known = np.concatenate([np.array([], dtype=np.uint64), *(batch.new for batch in before)])
        after = list(batches(inputs, place, Seen(known)))
    assert [batch.pieces for batch in before + after] == [batch.pieces for batch in whole]
    assert [batch.counts for batch in before + after] == [batch.counts for batch in whole]


def test_places(tmp_path: Path) -> None:
    inputs = read([rows(tmp_path / "a.jsonl", ["a" * 30]), rows(tmp_path / "b.jsonl", []), rows(tmp_path / "c", ["c"])])
    assert [place for place, _ in all_pieces(inputs, Place())] == [Place(0, 1), Place(0, 2), Place(2, 1), Place(2, 2)]
    assert [place for place, _ in all_pieces(inputs, Place(0, 1))] == [Place(0, 2), Place(2, 1), Place(2, 2)]
    assert list(all_pieces(inputs, Place(2, 2))) == []


def test_replaced_characters_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "\\udc00"}\n' * 2)
    found = list(batches(read([tmp_path / "a.jsonl"]), Place(), nothing()))
    assert found[0].counts == Counts(documents=1, duplicates=1, replaced=3)
