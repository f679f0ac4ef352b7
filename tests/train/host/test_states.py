"""Steps with averages and weights in the host's memory, compared with those of a card that has everything.

On a CPU both memories are one; what is copied where, and when, is the same.
"""

from __future__ import annotations

import weakref
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nanopace.config import TrainConfig
from nanopace.hardware.memory import HOST_PIECE
from nanopace.memory_ladder import HOST_STEPS
from nanopace.train.fused.fast import FusedFastGPT
from nanopace.train.fused.gpt2 import FusedGPT
from nanopace.train.fused.matrix import Matrix
from nanopace.train.fused.model import Fused
from nanopace.train.host import states
from nanopace.train.host.arena import Arena
from nanopace.train.host.bus import Bus, Copies
from nanopace.train.host.layers import LayerStream, layer_stream
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.recipes import block_matrices, new_model
from nanopace.train.optim.muon import MuonAndAdamW, Stack
from nanopace.train.optim.optimizer import make_optimizer, optimizer_name, optimizer_tensors
from nanopace.train.plan import ladder
from nanopace.train.plan.run_plan import Choice

from ..device import DEVICE, runs_kernels

LAYERS = 3
SIZE: dict[str, Any] = {"n_head": 2, "n_embd": 8, "vocab_size": 24, "block_size": 4}
STEPS = 2
ALWAYS, NEVER = 1e-3, 0.0  # clipped

pytestmark = [
    runs_kernels,
    pytest.mark.slow,
]
LONG = ("test_the_same_steps", "test_a_loss_that_is_not_finite", "test_nothing_is_left")
MEASURED = "[gpt2-more2-True]", "[fast-more4-False]"  # together they run almost every line


@pytest.fixture(autouse=True)
def mostly_untraced(request: pytest.FixtureRequest) -> None:
    """Coverage makes interpreted kernels several times slower."""
    if request.node.name.startswith(LONG) and not request.node.name.endswith(MEASURED):
        request.getfixturevalue("untraced")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a matrix in several pieces, the last one smaller."""
    monkeypatch.setattr(states, "HOST_PIECE", 100)


class Late:
    """A copy that happens when somebody waits for it."""

    def __init__(self, copies: Copies, before: list[Late]) -> None:
        self._copies, self._before = copies, before

    def happen(self) -> None:
        before, copies, self._before, self._copies = self._before, self._copies, [], []
        for each in before:
            each.happen()
        for source, target in copies:
            target.copy_(source)

    synchronize = happen


class LateBus(Bus):
    """Each copy happens as late as a card might: when the stream that computes waits for it, or for one behind it. If
    somebody forgets to wait, numbers are wrong."""

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))
        self._last: dict[str, list[Late]] = {"up": [], "down": []}

    def load(self, copies: Copies, *after: Any) -> Any:
        return self._later("up", copies, after)

    def store(self, copies: Copies, *after: Any) -> Any:
        return self._later("down", copies, after)

    def wait(self, done: Any) -> None:
        if done is not None:
            done.happen()

    def _later(self, lane: str, copies: Copies, after: tuple[Late | None, ...]) -> Late:
        done = Late(copies, [*self._last[lane], *(each for each in after if each is not None)])
        self._last[lane] = [done]
        return done


class Trained:
    """A model that takes steps in either way. `by_cores`: None if everything is on the card."""

    def __init__(
        self,
        recipe: str,
        clip: float,
        by_cores: bool | None,
        more: tuple[str, ...] = (),
        bus: Bus | None = None,
        layers: int = LAYERS,
    ) -> None:
        torch.manual_seed(0)
        shape = ModelShape(**SIZE, n_layer=layers, recipe=recipe)
        config = TrainConfig(learning_rate=1e-2, min_lr=1e-3, recipe=recipe, n_head=2, n_embd=8)
        self.model, self.clip, self.host = new_model(shape), clip, None
        steps = () if by_cores is None else ("host", *more)
        arena = None if by_cores is None else states.arena_for(self.model, DEVICE, muon=recipe == "fast")
        if arena is None:
            self.model.to(DEVICE)
        self.fused: Fused = (FusedGPT if recipe == "gpt2" else FusedFastGPT)(self.model, steps)
        self.optimizer = make_optimizer(self.model, config, DEVICE, steps)
        if arena is not None:
            bus = bus or Bus(DEVICE)
            stream = layer_stream(self.fused, steps, 4, bus)
            self.host = states.HostStates(
                self.model, self.fused, self.optimizer, arena, bus, clip, stream=stream, by_cores=by_cores
            )

    def step(self, seed: int, spoiled: float = 0.0) -> tuple[float, float]:
        """Of two micro-batches. Returns the loss and the norm of its gradient."""
        losses = [self.fused.gradients(*windows(seed + part), 0.5) for part in (0, 100)]
        loss = sum(losses, torch.tensor(spoiled, device=DEVICE)) / 2
        if self.host is not None:
            return loss.item(), self.host.update(loss).item()
        self.fused.finish()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip or 1e9)
        self.optimizer.found_inf = (~torch.isfinite(loss)).float()  # type: ignore[attr-defined]
        self.optimizer.step()
        del self.optimizer.found_inf  # type: ignore[attr-defined]
        self.fused.zero_grad()
        self.fused.refresh_copies()
        return loss.item(), norm.item()

    def everything(self) -> dict[str, Tensor]:
        tensors = {**dict(self.model.named_parameters()), **optimizer_tensors(self.model, self.optimizer)}
        return {name: each.detach().to("cpu", copy=True) for name, each in tensors.items()}


def windows(seed: int) -> tuple[Tensor, Tensor]:
    drawn = torch.randint(0, 24, (1, 5), generator=torch.Generator().manual_seed(seed)).to(DEVICE)
    return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()


@cache
def on_card(recipe: str, clip: float, layers: int = LAYERS) -> tuple[list[Any], dict[str, Tensor]]:
    """Losses and norms, and what is there in the end."""
    run = Trained(recipe, clip, None, layers=layers)
    return shown_by(run), run.everything()


def shown_by(run: Trained) -> list[Any]:
    seen = [*run.fused.sequence_losses(*windows(9)).tolist()]
    for seed in range(STEPS):
        seen += run.step(seed)
    return [*seen, *run.fused.sequence_losses(*windows(9)).tolist()]


def assert_as_on_the_card(host: Trained, seen: list[Any], everything: dict[str, Tensor]) -> None:
    assert shown_by(host) == pytest.approx(seen, rel=0 if DEVICE.type == "cpu" else 1e-3)
    assert_same(host.everything(), everything)


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """To the last bit, except for sums whose order is undefined on a card."""
    assert found.keys() == expected.keys()
    exact = {"rtol": 0.0, "atol": 0.0} if DEVICE.type == "cpu" else {"rtol": 1e-3, "atol": 1e-5}
    for name, each in expected.items():
        torch.testing.assert_close(found[name], each, **exact, msg=lambda said, name=name: f"{name}: {said}")


@pytest.mark.parametrize(
    ("recipe", "by_cores", "clip"),
    [("gpt2", False, ALWAYS), ("gpt2", False, NEVER), ("gpt2", True, ALWAYS), ("fast", False, ALWAYS)],
)
def test_the_same_steps(recipe: str, by_cores: bool, clip: float) -> None:
    assert_as_on_the_card(Trained(recipe, clip, by_cores), *on_card(recipe, clip))


MORE: list[tuple[str, tuple[str, ...], bool]] = [
    ("gpt2", ("host_gradients",), False),
    ("gpt2", ("attention", "host_activations"), False),
    ("gpt2", ("host_gradients", "host_weights"), True),
    ("gpt2", ("attention", "host_gradients", "host_activations", "host_weights"), False),
    ("fast", ("attention", "host_gradients", "host_activations", "host_weights"), False),
]


@pytest.mark.parametrize(("recipe", "more", "by_cores"), MORE)
def test_the_same_steps_with_more_of_it_there(recipe: str, more: tuple[str, ...], by_cores: bool) -> None:
    host = Trained(recipe, ALWAYS, by_cores, more)
    host.fused.gradients(*windows(7))  # a rehearsal
    host.fused.zero_grad()
    assert_as_on_the_card(host, *on_card(recipe, ALWAYS))


@pytest.mark.skipif(DEVICE.type != "cpu", reason="a card copies when it likes")
@pytest.mark.parametrize(
    ("recipe", "more", "by_cores", "layers"),
    [("gpt2", (), True, LAYERS), *((*each, LAYERS) for each in MORE), *((*MORE[0], layers) for layers in (1, 5))],
)
def test_the_same_steps_however_late_the_copies(
    recipe: str, more: tuple[str, ...], by_cores: bool, layers: int
) -> None:
    """With fewer layers than slots, and with more."""
    host = Trained(recipe, ALWAYS, by_cores, more, LateBus(), layers)
    assert_as_on_the_card(host, *on_card(recipe, ALWAYS, layers))


def test_nothing_is_left_of_a_micro_batch_that_did_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is full in the middle of a step's second micro-batch, when gradients of some layers are on the card."""
    host = Trained("gpt2", ALWAYS, False, ("attention", "host_gradients", "host_activations", "host_weights"))
    backward, calls = FusedGPT._backward, list[int]()

    def full(fused: FusedGPT, *arguments: Any) -> None:
        backward(fused, *arguments)
        calls.append(1)
        if len(calls) == LAYERS + 2:
            raise torch.OutOfMemoryError

    monkeypatch.setattr(FusedGPT, "_backward", full)
    host.fused.gradients(*windows(7))
    with pytest.raises(torch.OutOfMemoryError):
        host.fused.gradients(*windows(8))
    host.fused.zero_grad()
    assert_as_on_the_card(host, *on_card("gpt2", ALWAYS))


@pytest.mark.parametrize(("recipe", "by_cores"), [("gpt2", False), ("gpt2", True), ("fast", False)])
def test_a_loss_that_is_not_finite_leaves_everything(recipe: str, by_cores: bool) -> None:
    run, never = Trained(recipe, 1.0, by_cores), Trained(recipe, 1.0, by_cores)
    run.step(1)
    before = run.everything()
    run.step(2, spoiled=float("nan"))
    assert_same(run.everything(), before)
    never.step(1)
    assert run.step(3) == pytest.approx(never.step(3))  # nothing is left of the gradients
    assert_same(run.everything(), never.everything())


@pytest.mark.parametrize("recipe", ["gpt2", "fast"])
def test_what_is_in_the_host_s_memory(recipe: str) -> None:
    """Averages of matrices and tables, and the matrices of the blocks; and the arena is full with them."""
    run = Trained(recipe, 1.0, False)
    holds = run.host.arena.holds
    matrices = block_matrices(run.model)
    assert all(holds(each) == (name in matrices) for name, each in run.model.named_parameters())
    for name, each in optimizer_tensors(run.model, run.optimizer).items():
        assert holds(each) == (name.startswith(("exp_avg", "momentum")) and each.dim() == 2)
    assert run.host.arena.free == 0


@pytest.mark.usefixtures("eight_bits")
def test_eight_bits_are_those_of_all_rows_although_these_come_in_pieces() -> None:
    weight = nn.Parameter(torch.randn((12, 16), generator=torch.Generator().manual_seed(0)).to(DEVICE))
    whole, pieces = (Matrix(weight, fp8_forward=True, fp8_backward=True) for _ in range(2))
    whole.refresh_copies()
    for first in range(0, 12, 5):
        pieces.copy_rows(weight.detach()[first : first + 5], first)
    assert whole.fp8_weight is not None
    assert pieces.fp8_weight is not None
    for name, each in vars(whole.fp8_weight).items():
        assert torch.equal(each.float(), getattr(pieces.fp8_weight, name).float()), name


@pytest.mark.parametrize(("recipe", "without"), [("gpt2", ""), ("fast", ""), ("fast", "muon")])
def test_as_much_is_predicted_as_it_takes(recipe: str, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That much is asked for before a run, and never again. Wide enough that nothing is rounded up."""
    shape = ModelShape(n_layer=4, n_head=2, n_embd=64, vocab_size=64, block_size=64, recipe=recipe, without=without)
    config = TrainConfig(batch_size=2, recipe=recipe, without=without, n_head=2, n_embd=64, n_layer=4)
    asked = list[int]()
    monkeypatch.setattr(ladder, "check_room", asked.append)
    steps = ("attention", *HOST_STEPS)
    ladder.check_host(config, shape, Choice("fused", "as on a card"), steps)
    model = new_model(shape)
    arena = states.arena_for(model, DEVICE, muon=optimizer_name(config) == "muon")
    fused = (FusedGPT if recipe == "gpt2" else FusedFastGPT)(model, steps)
    optimizer = make_optimizer(model, config, DEVICE, steps)
    bus = Bus(DEVICE)
    stream = layer_stream(fused, steps, 2 * 64, bus)
    host = states.HostStates(model, fused, optimizer, arena, bus, 1.0, stream=stream)
    staging = 2 * 4 * max(part.gradient.numel() for part in host._parts)
    assert asked == [host.host_bytes - staging + 2 * 4 * HOST_PIECE]


@pytest.mark.parametrize("recipe", ["gpt2", "fast"])
def test_nothing_is_there_twice_when_it_is_pinned(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pinned memory takes its place at once, so all averages have moved into it by then."""
    free: dict[int, int] = {}
    monkeypatch.setattr(Arena, "pin", lambda arena, _: free.setdefault(id(arena), arena.free))
    run = Trained(recipe, 1.0, False)
    assert free[id(run.host.arena)] == 0


@pytest.mark.skipif(DEVICE.type != "cpu", reason="it pretends that there are two places")
def test_for_a_sample_all_of_the_model_is_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if that fails, everything is where it was afterwards."""
    run = Trained("gpt2", 1.0, False)
    before = {name: each.data_ptr() for name, each in run.model.named_parameters()}
    monkeypatch.setattr(Tensor, "cpu", Tensor.clone)

    def fail() -> None:
        assert run.host is not None
        with run.host.model_on_host():
            moved = {name for name, each in run.model.named_parameters() if each.data_ptr() != before[name]}
            assert moved == {*before} - {*block_matrices(run.model)}
            raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        fail()
    assert {name: each.data_ptr() for name, each in run.model.named_parameters()} == before


def test_old_stacks_are_gone_before_there_are_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, old = Stack.__init__, list[weakref.ref[Tensor]]()
    alive = list[int]()

    def watched(stack: Stack, *arguments: Any, **options: Any) -> None:
        alive.append(sum(each() is not None for each in old))
        plain(stack, *arguments, **options)

    config = TrainConfig(recipe="fast", n_head=2, n_embd=8)
    optimizer = make_optimizer(
        new_model(ModelShape(**SIZE, n_layer=LAYERS, recipe="fast")), config, torch.device("cpu")
    )
    assert isinstance(optimizer, MuonAndAdamW)
    old += [weakref.ref(each.momentum) for each in optimizer.stacks]
    monkeypatch.setattr(Stack, "__init__", watched)
    optimizer.take_apart(torch.device("cpu"))
    assert {*alive} == {0}


def test_while_a_layer_computes_the_next_one_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the backward pass of a step's second micro-batch; its first one begins with zeros."""
    run = Trained("gpt2", 1.0, False, ("attention", "host_gradients", "host_activations", "host_weights"))
    stream, backward, seen = run.fused.stream, FusedGPT._backward, []
    assert isinstance(stream, LayerStream)

    def watched(fused: FusedGPT, *arguments: Any) -> None:
        inside = [{*shelf._inside} - {None} for shelf in (stream.weights, stream.gradients) if shelf is not None]
        seen.append((*inside, {*stream._arriving}))
        backward(fused, *arguments)

    monkeypatch.setattr(FusedGPT, "_backward", watched)
    for seed in (1, 2):
        run.fused.gradients(*windows(seed))
    assert seen[:3] == [({2, 1}, {2}, {1}), ({1, 0}, {1}, {0}), ({1, 0}, {0}, set())]
    assert seen[3:] == [({2, 1}, {2, 1}, {1}), ({1, 0}, {1, 0}, {0}), ({1, 0}, {0}, set())]
