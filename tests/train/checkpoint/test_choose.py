"""Which checkpoint of a run is the model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nanopace.config import Asked
from nanopace.errors import InputError, NanopaceError, UsageError
from nanopace.literals import Value
from nanopace.train.checkpoint.best import write_best
from nanopace.train.checkpoint.choose import Chosen, choose
from nanopace.train.checkpoint.layout import STATE
from nanopace.train.formats.convert import convert, open_pretrained
from nanopace.train.ranks import Ranks, elastic
from nanopace.train.run import train

from ..conftest import TINY, Recorder
from ..overfitted import overfit, plain_loss
from .checkpoints import rewrite as rewrite_state
from .checkpoints import save

Run = tuple[Path, dict[int, float]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return overfit(tmp_path_factory.mktemp("overfitted"))


@pytest.fixture
def run(finished: Run, tmp_path: Path) -> Run:
    """A copy to corrupt."""
    shutil.copytree(finished[0], tmp_path / "out")
    return tmp_path / "out", finished[1]


def best(losses: dict[int, float]) -> int:
    return min(losses, key=losses.__getitem__)


def checkpoint(out: Path, step: int) -> Path:
    return out / "checkpoints" / f"step-{step:08d}"


def rewrite(out: Path, step: int, **changes: object) -> None:
    """Rewrite a checkpoint's state as another run would have written it."""
    rewrite_state(checkpoint(out, step), **changes)


def taken(chosen: Chosen) -> tuple[int, str]:
    return chosen.saved.step, chosen.why


def made(out: Path, *steps: int, best: list[Value] | None = None, only_better: bool = True) -> Path:
    """A run's checkpoints, made without training."""
    for step in steps:
        save(out, step)
    rewrite(out, steps[-1], best=best, config={"always_save_checkpoint": not only_better})
    return out


def test_a_best_one_from_before_this_run_is_in_nanogpts_file(tmp_path: Path) -> None:
    """A run that came from nanoGPT, with always_save_checkpoint=False, and has not been better since."""
    out = made(tmp_path / "out", 30, 40, best=[20, 2.5])
    with pytest.raises(InputError, match=r"step 20 with val loss 2\.5000, has no checkpoint; the checkpoints here are"):
        choose(out, "best")
    (out / "ckpt.pt").write_bytes(b"")
    with pytest.raises(InputError, match=r"step 20 .* before this run's checkpoints; nanoGPT's \S+/ckpt\.pt probably"):
        choose(out, "best")
    rewrite(out, 40, best=[35, 2.5])
    with pytest.raises(InputError, match="the checkpoints here are of steps 30, 40"):
        choose(out, "best")


def test_which_is_taken_and_how_it_is_named(tmp_path: Path) -> None:
    out = made(tmp_path / "a", 5, 10, 20, best=[10, 2.5])
    assert choose(out).reason == (
        "step 10, the best: val loss 2.5000 (the run has always_save_checkpoint=False); --which=last takes step 20"
    )
    assert choose(out, "best").reason == "step 10, the best: val loss 2.5000"
    assert choose(out, "0010").reason == "step 10, as requested"
    assert choose(out, "5").reason == "step 5, as requested"
    assert choose(out, "last").reason == "step 20, the last"
    chosen = choose(out, "5")
    assert (chosen.asked, chosen.evaluated, chosen.newest, chosen.best) == (True, True, 20, (10, 2.5))
    out = made(tmp_path / "b", 5, 20, best=[5, 2.5], only_better=False)
    assert choose(out).reason == "step 20, the last; --which=best takes step 5: val loss 2.5000"
    write_best(out, 20, 2.0)
    assert choose(out).reason == "step 20, the best and the last: val loss 2.0000"
    rewrite(out, 20, config={})
    assert taken(choose(out)) == (20, "last")
    assert not choose(out).asked
    out = made(tmp_path / "c", 5, 20, best=[20, 2.5])
    assert choose(out).reason == "step 20, the best and the last: val loss 2.5000"
    out = made(tmp_path / "d", 5, 20)
    chosen = choose(out)
    assert (chosen.reason, chosen.evaluated, chosen.best) == (
        "step 20, the last; no evaluation was made, so the best is unknown",
        False,
        None,
    )
    out = made(tmp_path / "e", 5, 20, best=[15, 2.5], only_better=False)
    chosen = choose(out)  # its checkpoint is not here
    assert (chosen.reason, chosen.evaluated, chosen.best) == ("step 20, the last", True, None)


@pytest.mark.parametrize(("count", "listed"), [(20, "1, 2, 3, "), (21, r"\.\.\. 2, 3, 4, ")])
def test_not_more_steps_are_listed_than_a_person_reads(tmp_path: Path, count: int, listed: str) -> None:
    for step in range(1, count + 1):
        (tmp_path / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
    with pytest.raises(InputError, match=rf"of step 99; its checkpoints are of steps {listed}.*{count}$"):
        choose(tmp_path, "99")


def test_a_run_that_saves_only_better_ones_is_its_best(finished: Run, tmp_path: Path) -> None:
    """The exported model has the best validation loss, not the last one."""
    out, losses = finished
    step = best(losses)
    assert 0 < step < 200
    assert losses[step] < losses[200] - 0.05
    for form, target in (("nanogpt", "best.pt"), ("huggingface", "hf"), ("nanopace", "ours")):
        assert convert(out, tmp_path / target, to=form).step == step
        assert plain_loss(tmp_path / target, out.parent / "corpus") == pytest.approx(losses[step], abs=1e-5)
    assert convert(out, tmp_path / "last.pt", which="last").step == 201
    assert plain_loss(tmp_path / "last.pt", out.parent / "corpus") > losses[step] + 0.05


@pytest.mark.parametrize("content", [None, "", "{}", "[7]", '{"step": 1e999, "val": 1}', '{"step": 3, "val": NaN}'])
def test_without_best_json_the_newest_state_knows(run: Run, content: str | None) -> None:
    out, losses = run
    (out / "best.json").unlink()
    if content is not None:
        (out / "best.json").write_text(content)
    assert taken(choose(out)) == (best(losses), "best")
    assert choose(out).best == (best(losses), losses[best(losses)])


def test_a_best_json_that_could_not_be_written_anew(run: Run) -> None:
    """It names another, worse one than the state saved after it."""
    out, losses = run
    (out / "best.json").write_text('{"step": 201, "val": 9.0}')
    assert taken(choose(out)) == (best(losses), "best")


@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_a_best_that_cannot_be_used(run: Run, how: str) -> None:
    out, losses = run
    step = best(losses)
    if how == "gone":
        shutil.rmtree(checkpoint(out, step))
        said = f"out: the best evaluation, step {step} with val loss {losses[step]:.4f}, has no checkpoint; "
        said += "the checkpoints here are of steps 201"
    else:
        (checkpoint(out, step) / "model.safetensors").write_bytes(b"")
        said = f"step-{step:08d}: is the best checkpoint but cannot be used: .*model.safetensors: is damaged: 0 bytes"
    with pytest.raises(InputError, match=said):
        choose(out, "best")
    chosen = choose(out)
    assert taken(chosen) == (201, "last")
    assert chosen.best is None
    assert len(chosen.passed_over) == 1
    assert choose(out, "last").passed_over == ()


def test_a_last_one_that_is_damaged(run: Run) -> None:
    """The best is not affected, and the last is the one before."""
    out, losses = run
    (checkpoint(out, 201) / "model.safetensors").write_bytes(b"")
    assert taken(choose(out)) == (best(losses), "best")
    assert taken(choose(out, "last")) == (best(losses), "last")
    assert len(choose(out, "last").passed_over) == 1
    (checkpoint(out, 201) / STATE).write_text("{}")
    assert taken(choose(out)) == (best(losses), "best")


def test_a_run_that_was_never_evaluated(run: Run) -> None:
    out, losses = run
    shutil.rmtree(checkpoint(out, best(losses)))
    (out / "best.json").unlink()
    rewrite(out, 201, best=None)
    with pytest.raises(InputError, match="out: no evaluation was made, so its best checkpoint is unknown"):
        choose(out, "best")
    assert taken(choose(out)) == (201, "last")


def test_one_model_leaves_nothing_to_choose(finished: Run, tmp_path: Path) -> None:
    out, losses = finished
    convert(out, tmp_path / "ckpt.pt")
    convert(out, tmp_path / "hf")
    for path in (checkpoint(out, best(losses)), tmp_path / "ckpt.pt", tmp_path, tmp_path / "hf"):
        assert open_pretrained(path).chosen is None
        with pytest.raises(UsageError, match=f"--which=best: {path} holds one model, so there is nothing to choose"):
            open_pretrained(path, "best")


@pytest.mark.parametrize("which", ["bset", "-1", "1.5", "1" * 19, "٣"])
def test_what_is_no_choice(finished: Run, which: str) -> None:
    with pytest.raises(NanopaceError, match="--which must be best, last or a step such as 150, not "):
        choose(finished[0], which)


# --- a run that begins with another ----------------------------------------------------------------------------------


def begun(finished: Run, out_dir: Path, flags: frozenset[str] = frozenset(), **knobs: Value) -> Recorder:
    told = Recorder()
    corpus = finished[0].parent / "corpus"
    given = {name: TINY[name] for name in ("device", "compile", "batch_size", "learning_rate", "min_lr", "eval_iters")}
    given |= {
        "gradient_accumulation_steps": 1,
        "dataset": str(corpus),
        "out_dir": str(out_dir),
        "max_iters": 1,
        "warmup_iters": 0,
        "lr_decay_iters": 9,
    }
    train(Asked(given={**given, **knobs}, files=("config.py",), flags=flags), listener=told)
    return told


def test_a_new_run_begins_with_the_best(finished: Run, tmp_path: Path) -> None:
    out, losses = finished
    told = begun(finished, tmp_path / "b", init_from=str(out), eval_iters=20)
    assert told.all("eval")[0].val == pytest.approx(losses[best(losses)], abs=1e-6)
    header = told.all("started")[0].choices["init_from"]
    assert header == f"{checkpoint(out, best(losses))}: {choose(out).reason}"
    told = begun(finished, tmp_path / "l", init_from=str(out), eval_iters=20, which="last")
    assert told.all("eval")[0].val > losses[best(losses)] + 0.05
    assert told.all("started")[0].choices["init_from"] == f"{checkpoint(out, 201)}: step 201, the last"


def test_a_new_run_is_told_of_a_best_that_cannot_be_used(run: Run, finished: Run, tmp_path: Path) -> None:
    out, losses = run
    shutil.rmtree(checkpoint(out, best(losses)))
    told = begun(finished, tmp_path / "b", init_from=str(out))
    notes = [note for note in told.all("note") if "has no checkpoint" in note]
    assert len(notes) == 1
    assert notes[0].endswith(f"; starting from {checkpoint(out, 201)} instead")


@pytest.mark.parametrize(
    ("init_from", "said"),
    [
        (
            "scratch",
            "--which=best: there is no run to choose a checkpoint from; name one: --init_from=out --out_dir=other",
        ),
        (
            "resume",
            "--which=best and --init_from=resume cannot be combined: a run is always resumed from its last checkpoint; "
            "to start a new run from another one: --init_from=out/checkpoints/step-00000150 --out_dir=other",
        ),
    ],
)
def test_where_there_is_no_run_to_choose_from(init_from: str, said: str, run: Run, finished: Run) -> None:
    with pytest.raises(UsageError, match=said):
        begun(finished, run[0], init_from=init_from, which="best")


def test_a_run_whose_config_file_chose_its_origin_goes_on(finished: Run, tmp_path: Path) -> None:
    """`nanopace train config.py --init_from=resume`, where the file still has its original init_from and which."""
    begun(finished, tmp_path / "b", init_from=str(finished[0]), which="last")
    told = begun(
        finished, tmp_path / "b", frozenset({"init_from", "max_iters"}), init_from="resume", which="last", max_iters=2
    )
    assert told.all("started")[0].first_step == 2


def test_torchrun_starts_such_a_run_again() -> None:
    again = elastic({"init_from": "out", "which": "best"}, Ranks(restarts=1), has_checkpoint=True)
    assert again == {"init_from": "resume"}
