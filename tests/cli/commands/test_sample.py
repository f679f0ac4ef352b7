"""`nanopace sample`."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nanopace.cli.main import main
from nanopace.corpus.tokenizers.tokenizer import Tokenizer, bytes_tokenizer, chars
from nanopace.train.checkpoint.write import write_weights
from nanopace.train.formats.convert import convert
from nanopace.train.models.gpt2 import GPT, ModelShape

from ..refused import refused

SHAPE = ModelShape(n_layer=1, n_head=2, n_embd=16, vocab_size=300, block_size=16)

Save = Callable[..., str]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def written(
        tokenizer: Tokenizer | None, *, shape: ModelShape = SHAPE, favourite: int | None = None, name: str = "out"
    ) -> str:
        torch.manual_seed(2)
        model = GPT(shape)
        weights = model.state_dict()
        if favourite is not None:  # always generate this one
            weights["transformer.ln_f.weight"].zero_()
            weights["transformer.ln_f.bias"].fill_(1.0)
            weights["lm_head.weight"].zero_()
            weights["lm_head.weight"][favourite] = 100.0
        write_weights(tmp_path / name, shape, weights, step=5, config={}, tokenizer=tokenizer)
        return str(tmp_path / name)

    return written


def sampled(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    assert main(["sample", *arguments]) == 0
    return capsys.readouterr()


def test_samples_begin_with_the_prompt_and_are_separated(save: Save, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = sampled(capsys, save(chars("abc\n")), "--prompt", "abc", "--num", "3", "--max_new_tokens", "20")
    samples = out.split("\n---------------\n")
    assert len(samples) == 3
    assert all(sample.startswith("abc") for sample in samples)
    assert len(set(samples)) == 3
    assert {len(sample.removesuffix("\n" if number == 2 else "")) for number, sample in enumerate(samples)} == {23}
    assert err.startswith("60 tokens in ")
    assert err.endswith(" tokens/s\n")


def test_a_seed_and_the_cache_do_not_change_the_text(save: Save, capsys: pytest.CaptureFixture[str]) -> None:
    """Also across the end of the block of 16. A seed's second sample is the next seed's first."""
    source = save(chars("abcdefgh\n"))
    flags = [source, "--prompt", "a", "--max_new_tokens", "40", "--temperature", "1.5", "--top_p", "0.95"]
    flags += ["--num=1"]
    texts = [sampled(capsys, *flags, *more)[0] for more in ([], ["--no-cache"], ["--seed", "1338"], ["--num", "2"])]
    assert texts[0] == texts[1] != texts[2]
    assert texts[3] == texts[0].removesuffix("\n") + "\n---------------\n" + texts[2]


def test_without_a_prompt_a_document_begins(save: Save, capsys: pytest.CaptureFixture[str]) -> None:
    biased = replace(SHAPE, bias=True)
    source = save(bytes_tokenizer(), shape=biased, favourite=ord("x"))
    assert sampled(capsys, source, "--num=1", "--max_new_tokens", "4")[0] == "xxxx\n"
    letters = save(chars("\nxy"), shape=biased, favourite=1, name="letters")
    assert sampled(capsys, letters, "--num=1", "--max_new_tokens", "4")[0] == "xxxx\n"


def test_the_end_of_a_document_ends_a_sample(save: Save, capsys: pytest.CaptureFixture[str]) -> None:
    source = save(bytes_tokenizer(), shape=replace(SHAPE, bias=True), favourite=256)
    out, err = sampled(capsys, source, "--num=1", "--prompt", "The end")
    assert out == "The end\n"
    assert err.startswith("0 tokens in ")


def test_a_prompt_from_a_file(save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "prompt.txt").write_text("a long prompt, beyond the block: é", encoding="utf-8")
    out, _ = sampled(
        capsys, save(bytes_tokenizer()), "--prompt", f"FILE:{tmp_path}/prompt.txt", "--max_new_tokens", "1"
    )
    assert out.startswith("a long prompt, beyond the block: é")


@pytest.mark.slow
def test_other_forms_of_the_weights(
    save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = save(bytes_tokenizer())
    monkeypatch.chdir(tmp_path)
    texts = [sampled(capsys, source, "--prompt", "ab")[0]]
    for target in ("ckpt.pt", "hf"):
        convert(Path(source), Path(target))
        texts.append(sampled(capsys, target, "--prompt", "ab", "--tokenizer", "bytes")[0])
    assert texts[0] == texts[1] == texts[2]


def test_a_tokenizer_from_a_directory(save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = save(None)
    chars("ab\n").save(tmp_path)
    out, _ = sampled(capsys, source, "--num=1", "--prompt", "ab", "--tokenizer", str(tmp_path))
    assert set(out) <= set("ab\n")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["nothing"], "nothing: no such file or directory"),
        (["bare"], "bare: has no tokenizer; name one with --tokenizer, such as the corpus it was trained on"),
        (["bare", "--tokenizer", "nothing"], "--tokenizer nothing: no tokenizer.json or meta.pkl there"),
        (["bare", "--tokenizer", "gpt2"], "bare: has 300 token ids, but its tokenizer has 50257; they do not belong"),
        (["out", "--prompt", "z"], "character 'z' is not in this corpus's alphabet"),
        (["out", "--prompt", "FILE:nothing"], "--start nothing: cannot be read: No such file or directory"),
        (["out", "--prompt", "FILE:a\0b"], "--start: must be str, not 'FILE:a\\x00b'"),
        (["out", "--prompt", "FILE:latin"], "--start latin: is not UTF-8 text"),
        (["out", "--prompt", "FILE:large"], "--start large: is too large for a prompt"),
        (["out", "--device", "abacus"], "--device=abacus: unknown device"),
        (["out", "--num", "0"], "--num_samples: must be int >= 1, not '0'"),
        (["out", "--temperature", "-1"], "--temperature: must be float >= 0, not '-1'"),
        (["out", "--temperature", "nan"], "--temperature: must be float >= 0, not 'nan'"),
        (["out", "--top_p", "0"], "argument --top_p: invalid share: '0'"),
        (["out", "--top_k", "-1"], "--top_k: must be int >= 0, not '-1'"),
        (["diverged"], "the model's outputs are not finite numbers: its training has diverged"),
    ],
)
def test_a_mistake_is_one_line(
    flags: list[str],
    said: str,
    save: Save,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    save(chars("abc\n"))
    save(None, name="bare")
    nan = {name: each * float("nan") for name, each in GPT(SHAPE).state_dict().items()}
    write_weights(tmp_path / "diverged", SHAPE, nan, step=1, config={}, tokenizer=bytes_tokenizer())
    Path("latin").write_bytes("é".encode("latin-1"))
    with open("large", "wb") as file:
        file.truncate((16 << 20) + 1)
    assert refused(capsys, "sample", *flags).startswith(said)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_model_does_not_steer_the_terminal(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    """An escape is shown, a carriage return is dropped, a new line and a tab stay."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    source = save(bytes_tokenizer(), shape=replace(SHAPE, bias=True), favourite=27)
    assert main(["sample", source, "--prompt", "a\r\n\tb\x9b\x7f", "--num=1", "--max_new_tokens", "2"]) == 0
    assert screen.getvalue() == "a\n\tb\\x9b\\x7f\\x1b\\x1b\n"


def test_a_pipe_gets_what_the_model_said(save: Save, capsys: pytest.CaptureFixture[str]) -> None:
    source = save(bytes_tokenizer(), shape=replace(SHAPE, bias=True), favourite=27)
    assert sampled(capsys, source, "--prompt", "a\r", "--num=1", "--max_new_tokens", "2")[0] == "a\r\x1b\x1b\n"


def test_text_is_shown_as_it_comes(save: Save) -> None:
    """On a real terminal, the prompt appears long before the last of two million tokens."""
    source = save(chars("abc\n"))
    command = [sys.executable, "-m", "nanopace", "sample", source, "--prompt", "abc", "--max_new_tokens", "2000000"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    seen = b""
    while len(seen) < 40:
        seen += os.read(ours, 100)
    assert process.poll() is None
    process.terminate()
    process.wait()
    os.close(ours)
    assert seen.startswith(b"abc")
