"""What LLM.Q prints before its first row, on the console and in its JSON."""

from __future__ import annotations

import math
from contextlib import suppress

from nanopace.run import FactValue
from nanopace.sources.build import RunBuilder

_PARTS = 3  # of a token's FLOPs: blocks, head, attention
_KNOBS = {  # nanoGPT's names
    "micro-batch": "batch_size",
    "seq-len": "block_size",
    "total-batch": "tokens_per_iteration",
    "steps": "max_iters",
    "eval-every-n-steps": "eval_interval",
    "learning-rate": "learning_rate",
    "num-layers": "n_layer",
    "num-heads": "n_head",
    "hidden-size": "n_embd",
    "vocab-size": "vocab_size",
}


class Settings:
    """Passes facts to a RunBuilder."""

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder
        self._options: dict[str, int] = {}
        self._flop: dict[str, float] = {}
        self.knows_tokens = False

    def option(self, name: str, value: object) -> None:
        if name == "matmul-dtype" and isinstance(value, str):
            precision = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}.get(value.upper())
            if precision:
                self._builder.fact("dtype", precision)
            return
        number = number_of(value)
        if number is None or not number > 1e-9:
            return
        self.knows_tokens |= name == "total-batch"
        known: FactValue = int(number) if number == int(number) else number
        if name in _KNOBS:
            self._builder.fact(_KNOBS[name], known)
        if isinstance(known, int):
            self._options[name] = known
        batch, context, steps, total = (
            self._options.get(each) for each in ("micro-batch", "seq-len", "grad-accumulation", "total-batch")
        )
        if batch and context and steps and total and not total % (batch * context * steps):
            gpus = total // (batch * context * steps)
            self._builder.fact("gpu_count", gpus)
            self._builder.fact("gradient_accumulation_steps", steps * gpus)

    def flop(self, part: str, count: float) -> None:
        """Per token, forward and backward; half of attention's FLOPs count, since it is causal."""
        self._flop[part] = count
        causal = sum(self._flop.values())
        if len(self._flop) == _PARTS and 0 < causal < math.inf:
            self._builder.fact("flops_per_token", causal + self._flop["attention"], "inferred", "model_shape")
            self._builder.fact("flops_per_token_causal", causal, "inferred", "model_shape")


def number_of(value: object) -> float | None:
    with suppress(TypeError, ValueError, OverflowError):
        number = float(value)  # type: ignore[arg-type]
        return number if abs(number) < 1e15 else None
    return None
