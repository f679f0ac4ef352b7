"""Several changes to one config, each by itself: what is run, and what follows from it."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from nanopace.config import KNOBS
from nanopace.errors import UsageError
from nanopace.literals import Value
from nanopace.tune.ablate.trials import Tried
from nanopace.tune.ablate.variants import Variants, conclude_variants, make_variants
from nanopace.tune.ablate.variants_view import page, write
from nanopace.tune.shapley import Players
from nanopace.tune.student import student
from nanopace.tune.trial import Outcome
from nanopace.views.json import object_json
from nanopace.wording.catalog import words

from .. import printing

A: dict[str, Value] = {"recipe": "fast", "learning_rate": 2e-3, "n_head": 12, "batch_size": 32, "out_dir": "mine"}


def variants(tries: Sequence[dict[str, Value]], repeats: int = 2, *, evaluates: bool = True) -> Variants:
    named = {",".join(f"{name}={value}" for name, value in each.items()): each for each in tries}
    return make_variants(A, named, steps=5, repeats=repeats, evaluates=evaluates)


def results(plan: Variants, outcome: Callable[[Players, int], Outcome]) -> list[Tried]:
    return [Tried(each.changed, each.repeat, outcome(each.changed, each.repeat)) for each in plan.trials]


def worked(rate: float = 1000.0, loss: float | None = None) -> Outcome:
    return Outcome(failure=None, seconds=1.0, tokens_per_second=rate, loss=loss)


printed = partial(printing.printed, write)


def test_every_change_is_run_by_itself_with_the_seeds_of_a() -> None:
    plan = variants([{"matrix_lr": 0.04, "cooldown": 0.6}, {"batch_size": 64}])
    ran = {(",".join(each.changed), each.repeat): each.settings for each in plan.trials}
    assert len(ran) == len(plan.trials) == 6
    both = ran["matrix_lr=0.04,cooldown=0.6", 1]
    assert (both["matrix_lr"], both["cooldown"], both["batch_size"], both["seed"]) == (0.04, 0.6, 32, 1338)
    assert (ran["batch_size=64", 0]["batch_size"], ran["batch_size=64", 0]["seed"]) == (64, 1337)
    own = ran["", 0]
    assert (own["batch_size"], own["learning_rate"], own["n_head"]) == (32, 2e-3, 12)
    assert "matrix_lr" not in own  # the recipe's


def test_what_a_leaves_to_its_recipe_may_be_tried_at_any_value() -> None:
    """nanoGPT's default is not what A has."""
    plan = variants([{"cooldown": KNOBS["cooldown"].default}])
    (tried,) = plan.changed.values()
    assert tried["cooldown"] == KNOBS["cooldown"].default


def test_rates_and_heads_of_a_do_not_go_with_another_recipe() -> None:
    plan = variants([{"recipe": "gpt2", "beta2": 0.95}, {"recipe": "fast", "n_layer": 3}])
    other = next(each.settings for each in plan.trials if "recipe=gpt2,beta2=0.95" in each.changed)
    assert (other["recipe"], other["beta2"], other["batch_size"]) == ("gpt2", 0.95, 32)
    assert not {"learning_rate", "n_head"} & other.keys()
    same = next(each.settings for each in plan.trials if "recipe=fast,n_layer=3" in each.changed)
    assert (same["learning_rate"], same["n_head"]) == (2e-3, 12)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max_iters": 7}, "--try max_iters=7: max_iters is the same in all runs"),
        ({"matrix_lr": 0.1, "seed": 3}, "--try matrix_lr=0.1,seed=3: seed is the same in all runs"),
        ({"out_dir": "x"}, "--try out_dir=x: out_dir is the same in all runs"),
        ({"batch_size": 32, "n_head": 12}, "--try batch_size=32,n_head=12: A has these settings already"),
        ({"n_embd": 100}, "--try n_embd=100: n_embd must be a multiple of n_head"),
    ],
)
def test_what_cannot_be_tried_is_refused(change: dict[str, Value], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        variants([{"n_layer": 3}, change])
    assert str(caught.value).startswith(said)


def test_losses_are_compared_between_equal_seeds() -> None:
    plan = variants([{"matrix_lr": 0.01}, {"matrix_lr": 0.04}], repeats=3)
    effect = {"matrix_lr=0.01": -0.1, "matrix_lr=0.04": 0.2}
    rest = {("matrix_lr=0.01", 1): 0.006, ("matrix_lr=0.04", 2): -0.003, ("", 0): 0.003}

    def outcome(some: Players, repeat: int) -> Outcome:
        name = "".join(some)
        return worked(loss=3.0 + repeat + effect.get(name, 0.0) + rest.get((name, repeat), 0.0))

    found = conclude_variants(plan, results(plan, outcome))
    low, high = found.effects
    assert found.loss == pytest.approx(4.001)
    assert low.loss.value == pytest.approx(-0.1 + 0.002 - 0.001)
    assert high.loss.value == pytest.approx(0.2 - 0.001 - 0.001)
    assert low.loss.error == high.loss.error
    assert low.loss.error == pytest.approx(student(0.975, 4) * _rest_of(rest) * math.sqrt(2 / 3))
    assert low.loss.shows
    assert low.speed.error == pytest.approx(0, abs=1e-12)


def _rest_of(rest: dict[tuple[str, int], float]) -> float:
    """The standard deviation of what neither settings nor seeds explain, four degrees of freedom."""
    names = ("", "matrix_lr=0.01", "matrix_lr=0.04")
    grid = [[rest.get((name, repeat), 0.0) for repeat in range(3)] for name in names]
    rows, columns = [sum(row) / 3 for row in grid], [sum(column) / 3 for column in zip(*grid, strict=True)]
    mean = sum(rows) / 3
    squares = sum((grid[i][j] - rows[i] - columns[j] + mean) ** 2 for i in range(3) for j in range(3))
    return math.sqrt(squares / 4)


def test_all_intervals_together_contain_the_truth_19_times_in_20() -> None:
    """Ten changes without effect: with an interval of 95% for each, one of them would often look like a gain."""
    draw, held = random.Random(5), 0
    plan = variants([{"n_layer": number} for number in range(1, 11)], repeats=3)
    for _ in range(300):
        found = conclude_variants(plan, results(plan, lambda *_: worked(loss=3 + draw.gauss(0, 0.01))))
        held += not any(each.loss and each.loss.shows for each in found.effects)
    assert held >= 0.93 * 300


def test_what_failed_has_a_reason_and_the_others_are_compared() -> None:
    plan = variants([{"batch_size": 512}, {"n_layer": 2}, {"dataset": "nowhere"}])
    failures = {
        "batch_size=512": Outcome(failure="memory", seconds=1.0, said="CUDA out of memory"),
        "dataset=nowhere": Outcome(failure="error", seconds=1.0, said="nowhere: no such corpus"),
    }

    def outcome(some: Players, repeat: int) -> Outcome:
        speed = math.exp(0.01 * repeat) * (2 if some else 1) * 1000
        return failures.get("".join(some)) or worked(speed, loss=3.0 - len(some) + repeat / 1000 * len(some))

    found = conclude_variants(plan, results(plan, outcome))
    text = printed(found)
    assert [(each.failure, each.said) for each in found.effects][1:] == [
        (None, ""),
        ("error", "nowhere: no such corpus"),
    ]
    assert text.startswith("Lowest loss: n_layer=2, 2.0005 instead of 3.0000 (-0.9995 ± ")
    assert "It trains at 2.000x A's speed (" in text
    assert "dataset=nowhere failed: nowhere: no such corpus" in text.replace("\n  ", " ")
    assert "batch_size=512 failed" not in text  # the table says that memory ran out
    assert "out of" in text
    assert max(map(len, text.splitlines())) <= 80
    document = json.loads(object_json(found))
    assert document["effects"][0] == {
        "setting": "batch_size=512",
        "failure": "memory",
        "said": "CUDA out of memory",
        "speed": None,
        "loss": None,
    }


def test_a_gain_within_the_spread_is_not_called_one() -> None:
    plan = variants([{"n_layer": 2}, {"n_layer": 3}], repeats=2)
    losses = {("", 0): 3.0, ("", 1): 3.1, ("n_layer=2", 0): 3.05, ("n_layer=2", 1): 3.0}
    found = conclude_variants(
        plan, results(plan, lambda some, repeat: worked(loss=losses.get(("".join(some), repeat), 3.2)))
    )
    assert printed(found).startswith("No change clearly lowers the loss; at best n_layer=2: -0.0250 ±")
    alone = variants([{"n_layer": 2}], repeats=1)
    one = conclude_variants(alone, results(alone, lambda *_: worked(loss=3.0)))
    assert printed(one).startswith("One run per setting cannot tell an effect from chance: use more --repeats.")
    assert "±" not in printed(one)
    none = conclude_variants(
        alone, results(alone, lambda some, _: Outcome(failure="time", seconds=9.0) if some else worked(loss=3.0))
    )
    assert printed(none).startswith("Nothing can be compared: all changes failed.")


def test_without_a_loss_the_fastest_is_named() -> None:
    plan = variants([{"batch_size": 64}, {"batch_size": 16}], evaluates=False)
    rates = {"batch_size=64": 1100.0, "batch_size=16": 800.0}

    def outcome(some: Players, repeat: int, spread: float = 0.001) -> Outcome:
        return worked(rates.get("".join(some), 1000.0) * (1 + spread * repeat))

    text = printed(conclude_variants(plan, results(plan, outcome)))
    assert text.startswith("Fastest: batch_size=64, at 1.100x A's speed (")
    assert "loss" not in text
    rates["batch_size=64"] = 1000.4
    draw = random.Random(1)
    noisy = conclude_variants(plan, results(plan, lambda some, repeat: outcome(some, repeat, draw.uniform(-0.1, 0.1))))
    assert printed(noisy).startswith("No change is clearly faster than A; at best batch_size=64, at")


def test_on_the_page_better_is_to_the_right_and_every_change_begins_at_a() -> None:
    pytest.importorskip("jinja2")
    plan = variants([{"n_layer": 2}, {"n_layer": 3}], repeats=2)
    losses = {"n_layer=2": 2.5, "n_layer=3": 3.25}
    found = conclude_variants(
        plan, results(plan, lambda some, repeat: worked(loss=losses.get("".join(some), 3.0) + 0.001 * repeat))
    )
    text = page(found, "base.py", words("en"))
    assert text.count('<li>\n<span class="name">') == 3  # A and two changes
    assert text.index('class="up"') < text.index('class="down"')
    assert "-0.5000" in text
    assert "+0.2500" in text
