"""What all tokenizers guarantee, and their files: saved, loaded, damaged."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.corpus.tokenizers.base import encodable
from nanopace.corpus.tokenizers.tokenizer import Tokenizer, bytes_tokenizer, chars, gpt2, load_tokenizer, train_bpe
from nanopace.errors import InputError

TEXT = "def greet(name):\n    print('Hello', name)  # ü € 😀\n" * 4
KINDS: dict[str, Tokenizer] = {
    "gpt2": gpt2(),
    "bytes": bytes_tokenizer(),
    "bpe": train_bpe([TEXT], 300),
    "chars": chars(TEXT),
}
ANY_TEXT = ("gpt2", "bytes", "bpe")  # an alphabet does not have every character

every_kind = pytest.mark.parametrize("tokenizer", KINDS.values(), ids=KINDS.keys())
any_text = pytest.mark.parametrize("tokenizer", [KINDS[kind] for kind in ANY_TEXT], ids=ANY_TEXT)
texts = st.text() | st.text(alphabet="ab \n'sü\ud800\udc00") | st.text(st.characters(codec=None))


@every_kind
def test_a_kind_knows_its_name_and_size(tokenizer: Tokenizer) -> None:
    assert KINDS[tokenizer.kind] is tokenizer
    ids = tokenizer.encode(TEXT)
    assert 0 <= min(ids) <= max(ids) < tokenizer.vocab_size
    assert tokenizer.decode(ids) == TEXT
    assert all(type(each) is int for each in ids)


@any_text
@settings(max_examples=60)
@given(text=texts)
def test_any_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == encodable(text)


@any_text
@settings(max_examples=30)
@given(batch=st.lists(texts, max_size=5))
def test_a_batch_is_its_texts_one_by_one(tokenizer: Tokenizer, batch: list[str]) -> None:
    assert [list(ids) for ids in tokenizer.encode_batch(batch)] == [tokenizer.encode(text) for text in batch]


@given(batch=st.lists(st.text(alphabet=TEXT), max_size=5))
def test_characters_too_come_back_alone_and_in_a_batch(batch: list[str]) -> None:
    tokenizer = KINDS["chars"]
    encoded = [tokenizer.encode(text) for text in batch]
    assert [ids.tolist() for ids in map(np.asarray, tokenizer.encode_batch(batch))] == encoded
    assert [tokenizer.decode(ids) for ids in encoded] == batch


@every_kind
@settings(max_examples=40)
@given(ids=st.lists(st.integers(-(2**65), 2**65) | st.integers(0, 60_000)))
def test_any_ids_can_be_shown(tokenizer: Tokenizer, ids: list[int]) -> None:
    shown = tokenizer.decode(ids)
    assert isinstance(shown, str)
    if any(not 0 <= each < tokenizer.vocab_size for each in ids):
        assert "\ufffd" in shown


@every_kind
def test_numpy_ids_can_be_shown(tokenizer: Tokenizer) -> None:
    ids = np.array(tokenizer.encode(TEXT), dtype=np.uint16)
    assert tokenizer.decode(ids) == TEXT  # type: ignore[arg-type]


@every_kind
def test_the_bytes_of_the_ids_are_the_bytes_of_the_text(tokenizer: Tokenizer) -> None:
    counts = tokenizer.token_bytes()
    assert counts.dtype == np.int32
    assert counts.shape == (tokenizer.vocab_size,)
    assert counts[tokenizer.encode(TEXT)].sum() == len(TEXT.encode())
    if tokenizer.end_of_text is not None:
        assert counts[tokenizer.end_of_text] == 0
        assert np.count_nonzero(counts == 0) == 1


@any_text
def test_a_document_cannot_forge_its_own_end(tokenizer: Tokenizer) -> None:
    end = tokenizer.end_of_text
    assert end == tokenizer.vocab_size - 1
    for text in ("<|endoftext|>", "a <|endoftext|> b", "<|endoftext|><|endoftext|>"):
        assert end not in tokenizer.encode(text)
        assert end not in list(tokenizer.encode_batch([text])[0])
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode([end]) == "<|endoftext|>"


def test_characters_have_nothing_between_documents() -> None:
    assert KINDS["chars"].end_of_text is None


@every_kind
def test_it_travels_to_another_process(tokenizer: Tokenizer) -> None:
    tokenizer.encode(TEXT)  # fills its cache
    copy: Tokenizer = pickle.loads(pickle.dumps(tokenizer))  # noqa: S301
    assert copy.encode(TEXT) == tokenizer.encode(TEXT)
    assert copy.hash == tokenizer.hash


# --- files -----------------------------------------------------------------------------------------------------------


@every_kind
def test_what_is_saved_is_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_bytes())
    assert (content["nanopace"], content["kind"], content["hash"]) == (1, tokenizer.kind, tokenizer.hash)
    loaded = load_tokenizer(tmp_path)
    assert (loaded.kind, loaded.hash, loaded.vocab_size) == (tokenizer.kind, tokenizer.hash, tokenizer.vocab_size)
    assert loaded.encode(TEXT) == tokenizer.encode(TEXT)


def test_no_file_no_tokenizer(tmp_path: Path) -> None:
    assert load_tokenizer(tmp_path) is None


def test_halves_of_pairs_stay_apart_in_a_file(tmp_path: Path) -> None:
    alphabet = ["\ud83d", "\ude00", "😀"]
    chars(alphabet).save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert [loaded.decode([each]) for each in range(3)] == sorted(alphabet)


def test_nanogpts_alphabet_is_one(tmp_path: Path) -> None:
    letters = sorted("hello wörld\n")
    letters = sorted(set(letters), reverse=True)  # nanoGPT sorts them ascending; any ids are kept
    ids = {letter: number for number, letter in enumerate(letters)}
    meta = {"vocab_size": len(letters), "itos": {number: letter for letter, number in ids.items()}, "stoi": ids}
    (tmp_path / "meta.pkl").write_bytes(pickle.dumps(meta))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.kind == "chars"
    assert tokenizer.encode("hello") == [ids[letter] for letter in "hello"]


def test_a_vocabulary_that_is_not_of_characters_is_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 50304}))
    assert load_tokenizer(tmp_path) is None


def change(tokenizer: Tokenizer, tmp_path: Path, edit: Callable[[dict[str, object]], object]) -> None:
    tokenizer.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_bytes())
    edit(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("gpt2", {"hash": "0" * 64}, "does not match its hash"),
        ("bytes", {"hash": None}, "does not match its hash"),
        ("chars", {"alphabet": ["a", "b"]}, "does not match its hash"),
        ("chars", {"alphabet": ["a", "a"]}, "no vocabulary"),
        ("chars", {"alphabet": ["ab"]}, "no vocabulary"),
        ("chars", {"alphabet": []}, "no vocabulary"),
        ("chars", {"alphabet": [1]}, "no vocabulary"),
        ("chars", {"alphabet": None}, "no vocabulary"),
        ("bpe", {"merges": [["a", "b"]]}, "does not match its hash"),
        ("bpe", {"merges": [["a", "b"], ["a", "b"]]}, "no vocabulary"),
        ("bpe", {"merges": [["a"]]}, "no vocabulary"),
        ("bpe", {"merges": [["a", " "]]}, "no vocabulary"),
        ("bpe", {"merges": [[1, 2]]}, "no vocabulary"),
        ("bpe", {"letters": ["a"]}, "no vocabulary"),
        ("bytes", {"kind": "words"}, "no vocabulary"),
        ("bytes", {"kind": ["bytes"]}, "no vocabulary"),
        ("bytes", {"nanopace": 2}, "newer version"),
    ],
)
def test_a_changed_file_is_refused(kind: str, changes: dict[str, object], message: str, tmp_path: Path) -> None:
    change(KINDS[kind], tmp_path, lambda content: content.update(changes))
    with pytest.raises(InputError, match=message) as error:
        load_tokenizer(tmp_path)
    assert str(tmp_path / "tokenizer.json") in str(error.value)


@pytest.mark.parametrize("missing", ["kind", "letters", "merges"])
def test_a_file_with_something_missing_is_refused(missing: str, tmp_path: Path) -> None:
    change(KINDS["bpe"], tmp_path, lambda content: content.pop(missing))
    with pytest.raises(InputError, match="no vocabulary"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"model": {}}', "[" * 100_000, "\xff"])
def test_another_file_of_that_name_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match="not a nanopace tokenizer"):
        load_tokenizer(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").mkdir()
    with pytest.raises(InputError, match=r"tokenizer\.json: cannot be read: Is a directory"):
        load_tokenizer(tmp_path)


@given(data=st.binary(max_size=200))
def test_no_bytes_break_the_loading(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("fuzz")
    (directory / "tokenizer.json").write_bytes(data)
    with pytest.raises(InputError):
        load_tokenizer(directory)
