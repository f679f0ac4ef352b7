"""The lines that nanoGPT and its forks print."""

from __future__ import annotations

from .plan import Plan


def header(plan: Plan, *, resumed: bool) -> list[str]:
    """What nanoGPT prints before it trains."""
    shape = plan.shape
    knobs = {
        "out_dir": "out",
        "eval_interval": plan.eval_interval,
        "eval_iters": plan.eval_iters,
        "log_interval": plan.log_interval,
        "always_save_checkpoint": plan.always_save,
        "dataset": plan.dataset,
        "gradient_accumulation_steps": shape.accumulation,
        "batch_size": shape.batch_size,
        "block_size": shape.block_size,
        "n_layer": shape.n_layer,
        "n_head": shape.n_head,
        "n_embd": shape.n_embd,
        "bias": False,
        "learning_rate": plan.learning_rate,
        "max_iters": plan.max_iters,
        "compile": plan.compiles,
    }
    return [
        "Overriding config with config/train_text.py:",
        *(f"{name} = {value!r}" for name, value in knobs.items()),
        "",
        f"tokens per iteration will be: {shape.tokens:,}",
        f"found vocab_size = {shape.vocab_size} (inside data/text/meta.pkl)",
        "Resuming training from out" if resumed else "Initializing a new model from scratch",
        f"number of parameters: {shape.parameters / 1e6:.2f}M",
        *(["compiling the model... (takes a ~minute)"] if plan.compiles else []),
    ]


def evaluation_text(plan: Plan, iteration: int, train: float, val: float) -> str:
    if plan.fork == "bpc":
        return f"step {iteration}: train loss {train:.4f} BPC, val loss {val:.4f} BPC"
    if plan.fork == "ppl":
        told = [f"{loss:.4f} (PPL {2.718281828**loss if loss < 50 else loss:.1f})" for loss in (train, val)]
        return f"step {iteration}: train loss {told[0]} | val loss {told[1]}"
    return f"step {iteration}: train loss {train:.4f}, val loss {val:.4f}"


def row_text(plan: Plan, iteration: int, loss: float, ms: float, mfu: float) -> str:
    unit = " BPC" if plan.fork == "bpc" else ""
    lr = ", lr 6.00e-04, grad norm 0.84" if plan.fork in ("columns", "covers") else ""
    share = f", mfu {mfu:.2f}%" if plan.mfu else ""
    return f"iter {iteration}: loss {loss:.4f}{unit}{lr}, time {ms:.2f}ms{share}"
