"""What the trainers' figures mean, as their source code has it: reports hang on these and no log says them."""

from __future__ import annotations

from nanopace.record import field_names
from nanopace.sources.formats.table import BUILT_IN
from nanopace.sources.log_format import LogFormat

FIGURES = field_names(LogFormat)[field_names(LogFormat).index("row_contains_evaluation") :]


def test_what_the_figures_mean() -> None:
    plain = LogFormat("", "", "")
    assert {
        each.name: {name: getattr(each, name) for name in FIGURES if getattr(each, name) != getattr(plain, name)}
        for each in BUILT_IN
    } == {
        "nanogpt": {
            "mfu_smoothing": 0.9,
            "printed_peak": 312.0,
            "row_loss": "micro-batch",
            "rows_may_cover": True,
            "nanogpt_knobs": True,
            "nanogpt_defaults": True,
            "gpt2_shape": True,
            "ends_at_max_iters": True,
        },
        "nanochat": {
            "row_contains_evaluation": False,
            "zero_mfu_is_unknown": True,
            "row_loss": "smoothed",
            "has_stages": True,
        },
        "nanopace": {
            "row_contains_evaluation": False,
            "printed_peak": "card",
            "nanogpt_knobs": True,
            "gpt2_shape": True,
        },
        "ledger": {"row_contains_evaluation": False, "nanogpt_knobs": True, "gpt2_shape": True},
        "clock": {"row_contains_evaluation": False, "gpt2_shape": True},
    }
    assert [each.trainer for each in BUILT_IN] == ["nanoGPT", "nanochat", "nanopace", "nanopace", "nanopace Clock"]
