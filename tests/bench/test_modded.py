"""Patches to modded-nanogpt's programs: what is replaced, what the added lines do, and a complete run."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import modded
import time_to_loss
from loss_judge import document_loss
from modded_patches import _JUDGED, _LOSSES_27, _LOSSES_NEWEST, Patch, newest_patches, patched, record_27_patches
from nanogpt import write_tokens
from nanopace.corpus.tokenizers.base import BYTE_OF_LETTER
from nanopace.corpus.tokenizers.bpe import TrainedBpe
from nanopace.train.models.fast import FastGPT
from nanopace.train.models.gpt2 import ModelShape

SMALL = "n_layer=2,n_head=2,n_embd=16,block_size=16,device=cpu,dtype=float32,compile=False,batch=4,accum=2,eval_iters=2"

# A program with the output of a record. The lines to replace are in one of its strings.
STAND_IN = '''
CODE = r"""{old}"""
import json, os, time, numpy
tokens = numpy.fromfile(os.environ["DATA_PATH"] + "/data/fineweb10B/fineweb_train_000002.bin", dtype=numpy.uint16)
assert tokens[512 + 3] == 3, "llm.c's header, and then the tokens"
steps = {steps}
os.mkdir("logs")
with open("logs/1.txt", "w") as log:
    print("=" * 100, file=log)
    for step in range(1, steps + 1):
        print(f"step:{{step}}/{{steps}} train_time:{{step * 500}}ms step_avg:500.00ms", file=log)
    print(f"step:{{steps}}/{{steps}} val_loss:2.5000 train_time:{{steps * 500 + 30}}ms step_avg:500.00ms", file=log)
losses = [2.0 + each % 2 for each in range(len(numpy.load("windows.npy")))]
with open("found.json", "w") as file:
    json.dump(dict(ended=time.time(), peak_bytes=3 << 30, losses=losses), file)
'''


def _old(patches: tuple[Patch, ...], file: str = "train_gpt.py") -> str:
    return "\n".join(each.old for each in patches if each.file == file for _ in range(each.count))


@pytest.mark.parametrize("accum", [2, 8])
@pytest.mark.parametrize("newest", [False, True])
def test_every_place_is_replaced_and_a_program_that_lacks_one_is_refused(newest: bool, accum: int) -> None:
    patches = newest_patches(30, 3, accum, 7) if newest else record_27_patches(30, accum, 7)
    files = {name: _old(patches, name) for name in dict.fromkeys(each.file for each in patches)}
    found = "".join(patched(text, [each for each in patches if each.file == name]) for name, text in files.items())
    assert "torch.manual_seed(7)" in found
    assert ("grad_accum_steps = 2" in found) == (accum == 2)
    for each in patches:
        with pytest.raises(ValueError, match=r"occurs \d times"):
            patched(files[each.file].replace(each.old, "", 1), [each])


@pytest.mark.parametrize(("record", "accum"), [("27", 8), ("27", 2), ("newest", 8), ("newest", 1)])
def test_a_horizon_in_tokens_gives_the_steps(record: str, accum: int, tmp_path: Path) -> None:
    _stand_in(tmp_path, 3)
    chosen = modded.program(tmp_path, record, tokens=100e6, accum=accum, seed=1)
    assert chosen.tokens == pytest.approx(100e6, rel=0.01)
    if record == "27":
        assert chosen.steps * accum * 49152 == chosen.tokens
    else:
        scheduled, extension = modded.newest_steps(100e6, accum)
        assert (scheduled + extension, extension / scheduled) == (chosen.steps, pytest.approx(15 / 1270, rel=0.15))


def test_the_rest_of_a_long_document_comes_next() -> None:
    """Batches of 23 tokens and one more, from documents of 5, 40, 1 and 60 tokens."""
    lines = newest_patches(6, 2, 8, 1)[-2:]
    text = "\n".join(
        [
            "def batch(self, size, longest):",
            "    found, n, idx, cur_len = [], len(self.bos_idx), self.i, 0",
            "    while True:",
            "            while cur_len <= size:",
            "                cur = self.bos_idx[idx]",
            "                idx += 1",
            "                after = self.bos_idx[idx] if idx < n else self.size",
            "                end = min(after, cur + longest, cur + size - cur_len + 1)",
            "                found += range(cur, end)",
            "                cur_len += end - cur",
            "            self.i = idx",
            "            return found",
        ]
    )
    inside: dict[str, Any] = {}
    exec(patched(text, lines), inside)  # noqa: S102, our own text
    shard = SimpleNamespace(bos_idx=[0, 5, 45, 46], size=106, i=0)
    seen = [each for _ in range(4) for each in inside["batch"](shard, 23, 10)]
    assert seen == list(range(96)), "theirs would have gone from 15 to 45"


@pytest.mark.parametrize("newest", [False, True])
def test_windows_are_apart_and_each_has_its_own_loss(
    newest: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = np.random.default_rng(3).integers(0, 50256, (300, 1025)).astype(np.int32)
    windows[5, 100] = 50256
    np.save(tmp_path / "windows.npy", windows)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    begins: list[torch.Tensor] = []

    def model(tokens: torch.Tensor, targets: torch.Tensor, *rest: Any) -> torch.Tensor:
        if newest:
            begins.append(rest[0][rest[0] < len(tokens)])
            assert rest[0][-1] == len(tokens)
        else:
            begins.append(torch.nonzero((tokens > 0xFFFFF) | (tokens == 50256))[:, 0])
            tokens = tokens & 0xFFFFF
        return tokens.float() - targets

    model.eval = lambda: None  # type: ignore[attr-defined]
    inside = {
        "torch": torch,
        "time": SimpleNamespace(time=lambda: 12.5),
        "model": model,
        "peak_bytes": 77,
        "train_steps": 3,
        "get_window_size_blocks": lambda step: step,
        "BOS_ID": 50256,
        "next_multiple_of_n": lambda v, n: math.ceil(v / n) * n,
        "get_bigram_hash": lambda tokens: tokens,
        "training_manager": SimpleNamespace(get_forward_args=lambda: None),
    }
    exec((_LOSSES_NEWEST if newest else _LOSSES_27) + _JUDGED, inside)  # noqa: S102, our own text
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["ended"], found["peak_bytes"]) == (12.5, 77)
    expected = (windows[:, :-1] - windows[:, 1:]).mean(axis=1)
    np.testing.assert_allclose(found["losses"], expected, atol=1e-3)
    first = sorted([*range(0, 262144, 1024), 5 * 1024 + 100])
    assert begins[0].tolist() == first


def test_the_loss_of_documents_is_that_of_each_by_itself() -> None:
    torch.manual_seed(5)
    shape = ModelShape(n_layer=2, n_head=2, n_embd=32, vocab_size=64, block_size=32, recipe="fast")
    model = FastGPT(shape).eval()
    for each in model.parameters():
        torch.nn.init.normal_(each, std=0.3)
    stream = torch.randint(0, 63, (61,))
    stream[[0, 20, 45]] = 63
    with torch.no_grad():
        parts = [stream[a : b + 1] for a, b in ((0, 20), (20, 45), (45, 60))]
        alone = [model(part[None, :-1], part[None, 1:]) * (len(part) - 1) for part in parts]
        assert document_loss(model, stream, 63, 31) == pytest.approx(float(sum(alone)) / 60, rel=1e-5)
        assert document_loss(model, stream, 63, 4) != pytest.approx(float(sum(alone)) / 60, rel=1e-4)
    assert model.shape == shape


def _stand_in(checkout: Path, steps: int) -> None:
    for_all = record_27_patches(9, 2, 1), newest_patches(9, 2, 2, 1)
    for name, patches in zip(("27", "newest"), for_all, strict=True):
        text = STAND_IN.format(old=_old(patches), steps=steps)
        path = checkout / (modded._RECORD_27 if name == "27" else "train_gpt.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + ("\n" + "=" * 100 + "\nits log" if name == "27" else ""))
    kernels = _old(newest_patches(9, 2, 2, 1), "triton_kernels.py").replace('"""', "")
    (checkout / "triton_kernels.py").write_text(f'CODE = r"""{kernels}"""')
    (checkout / "dc_triton_kernels.py").write_text("")


@pytest.mark.slow
def test_records_and_nanopace_in_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _stand_in(tmp_path / "checkout", 4)
    tokenizer = TrainedBpe(sorted(BYTE_OF_LETTER), [])
    tokens = np.random.default_rng(5).integers(0, 256, 9000).astype(np.uint16)
    tokens[3], tokens[::50] = 3, 256
    corpus = write_tokens(tmp_path / "corpus", tokens, tokens[:4000], vocab_size=320)
    tokenizer.save(corpus)
    monkeypatch.setattr(modded, "END_OF_TEXT", 256)
    monkeypatch.setattr(modded, "VAL_TOKENS", 1000)
    arguments = ["--against", "modded", str(tmp_path / "checkout"), "--corpus", str(corpus), "--windows", "32"]
    settings = ("record=27,tokens=4e5,accum=2", "record=newest,tokens=4e5", "record=26,tokens=4e5")
    theirs = [each for setting in settings for each in ("--theirs", setting)]
    more = ["--ours", "recipe=fast,iters=6", "--shared", SMALL, "--keep", str(tmp_path / "kept")]
    monkeypatch.setattr(sys, "argv", ["time_to_loss.py", *arguments, *theirs, *more])
    time_to_loss.main()
    printed = capsys.readouterr().out
    first, second, unknown, ours = [
        json.loads(each) for each in (tmp_path / "kept" / "results.jsonl").read_text().splitlines()
    ]
    assert (first["trainer"], first["steps"], first["seconds"], first["documents"]) == ("modded-27", 4, 2.03, 2.5)
    assert (first["loss"], first["windows"], first["peak_bytes"]) == (2.5, 32, 3 << 30)
    assert (second["trainer"], second["losses"]) == ("modded-newest", [2.0, 3.0] * 16)
    assert unknown["failed"] == "ValueError: record=26: must be 27 or newest"
    assert ours["loss"] == pytest.approx(sum(ours["losses"]) / 32)
    assert ours["documents"] == pytest.approx(math.log(320), abs=0.5)
    assert 0 < ours["seconds_of_steps"] < ours["process_seconds"]
    assert "- num_iterations = 1750 #" in printed, "what was changed"
    assert ["modded-27", settings[0], "1337", "4", "0.39", "2.0"] in [row.split()[:6] for row in printed.splitlines()]
    assert "modded-27 record=27,tokens=4e5,accum=2, windows 2.5000: not reached" in printed
    # Once more, with another run of ours: only that one, and the one that failed, are measured.
    for each in ("train_gpt.py", str(modded._RECORD_27)):
        (tmp_path / "checkout" / each).write_text("raise SystemExit(9)")
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--ours", "recipe=fast,iters=3"])
    time_to_loss.main()
    again = capsys.readouterr().out
    assert [each for each in again.splitlines() if each in printed.splitlines() and "seed 1337 ..." in each] == []
    assert "FAILED: modded-26" in again
    assert " 0.39       2.0" in again, "the kept result is in the table"
    kept = [json.loads(each) for each in (tmp_path / "kept" / "results.jsonl").read_text().splitlines()]
    assert [(each["setting"], "failed" in each) for each in kept[4:]] == [
        ("record=26,tokens=4e5", True),
        ("recipe=fast,iters=3", False),
    ]


def test_what_is_asked_for_without_a_checkout_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    corpus = write_tokens(tmp_path / "corpus", np.zeros(99, np.uint16), np.zeros(99, np.uint16), vocab_size=64)
    for theirs in ("record=27,tokens=1e6", "batch=4,iters=3"):
        monkeypatch.setattr(sys, "argv", ["time_to_loss.py", "--corpus", str(corpus), "--theirs", theirs])
        with pytest.raises(SystemExit) as refused:
            time_to_loss.main()
        assert refused.value.code == 2
