from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nanopace.train.fused.attention import pick_attention
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.warm_start import (
    cache_directory,
    keep_compiled,
    keep_the_compiler_out_of_optimizers,
    recall,
    remember,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "nanopace"


def test_what_was_found_out_is_known_the_next_time() -> None:
    assert recall("attention", "which?") is None
    remember("attention", "which?", "flash")
    remember("attention", "and here?", "cudnn")
    assert recall("attention", "which?") == "flash"
    assert recall("attention", "and here?") == "cudnn"
    assert recall("other", "which?") is None


@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b'{"which?": 3}', b"[" * 100_000])
def test_a_damaged_memory_is_none(cache: Path, damage: bytes) -> None:
    cache.mkdir()
    (cache / "attention.json").write_bytes(damage)
    assert recall("attention", "which?") is None
    remember("attention", "which?", "flash")
    assert recall("attention", "which?") == "flash"


def test_where_nothing_can_be_kept_nothing_is(cache: Path) -> None:
    cache.write_text("a file, where the directory should be")
    remember("attention", "which?", "flash")
    assert recall("attention", "which?") is None


def test_kernels_are_kept_where_a_reboot_does_not_remove_them(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    keep_compiled()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(cache / "inductor")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/elsewhere")
    keep_compiled()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/elsewhere"


def test_without_a_choice_it_is_in_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "nanopace"


def test_a_cpu_has_one_attention_kernel() -> None:
    shape = ModelShape(n_layer=1, n_head=1, n_embd=8, vocab_size=8, block_size=8)
    assert "only one kernel" in pick_attention(shape, 1, torch.device("cpu"), torch.float32).reason


TRAINED = """
import sys
import torch
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.recipes import meta_model, new_model
from nanopace.train.warm_start import keep_the_compiler_out_of_optimizers

if sys.argv[1] == "early":
    keep_the_compiler_out_of_optimizers()
    for recipe in ("gpt2", "fast"):
        shape = ModelShape(n_layer=2, n_head=2, n_embd=32, vocab_size=64, block_size=16, recipe=recipe)
        made = [(name, each.shape) for name, each in new_model(shape).named_parameters()]
        assert [(name, each.shape) for name, each in meta_model(shape).named_parameters()] == made
weight = torch.linspace(-1, 1, 5).requires_grad_()
optimizer = torch.optim.AdamW([{"params": [weight], "weight_decay": 0.1}], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (weight**2).sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
assert torch.is_grad_enabled()
print(weight.tolist())
print("torch._dynamo" in sys.modules)
"""


def trained(when: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", TRAINED, when], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_who_compiles_nothing_does_not_import_the_compiler_and_trains_the_same() -> None:
    weights, imported = trained("early")
    assert imported == "False"
    assert trained("never") == [weights, "True"]  # once torch does not, what is done about it can go


def test_where_the_compiler_is_imported_already_torch_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._dynamo", sys)  # any module
    step = torch.optim.Adam.step
    keep_the_compiler_out_of_optimizers()
    assert torch.optim.Adam.step is step


def test_another_torch_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch without such methods, or whose methods tell the compiler nothing."""
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    monkeypatch.setattr(torch.optim, "Optimizer", object)
    monkeypatch.setattr(torch.optim.Adam, "step", torch.optim.SGD.zero_grad)
    keep_the_compiler_out_of_optimizers()
    assert torch.optim.Adam.step is torch.optim.SGD.zero_grad


COMPILES = """
import torch
from nanopace.train.warm_start import begin_to_load_the_compiler, wait_for_the_compiler

begin_to_load_the_compiler()
wait_for_the_compiler()
torch.compile(torch.nn.Linear(2, 2))
"""


def test_nobody_compiles_while_the_compiler_is_being_imported() -> None:
    """Two threads in its circular imports end in a deadlock or in half-initialised modules."""
    done = subprocess.run([sys.executable, "-c", COMPILES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
