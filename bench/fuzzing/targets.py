"""All fuzzing targets, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fuzzing.commands import make_config, make_flags, read_config, run_flags
from fuzzing.faults import make_fault, run_faults
from fuzzing.formats import make_example, read_example
from fuzzing.ledgers import compare_both, explain, make_ledger, make_pair, read_events
from fuzzing.logs import make_log
from fuzzing.parsers import make_for_parser, read_by_parser
from fuzzing.patterns import make_hand_written, read_by_patterns
from fuzzing.spoiled import make_checkpoint, make_corpus, make_directory
from fuzzing.trees import read_trees, run_in_trees
from fuzzing.worker import Target


def _plain(check: Callable[[bytes], None]) -> Callable[[Path], Callable[[bytes], None]]:
    """For a target that needs no directory."""
    return lambda _: check


TARGETS = {
    "logs": Target(make_log, _plain(explain)),
    "formats": Target(make_example, _plain(read_example)),
    "parsers": Target(make_for_parser, _plain(read_by_parser)),
    "patterns": Target(make_hand_written, _plain(read_by_patterns)),
    "ledgers": Target(make_ledger, _plain(read_events)),
    "pairs": Target(make_pair, _plain(compare_both)),
    "configs": Target(make_config, _plain(read_config)),
    "checkpoints": Target(make_checkpoint, read_trees),
    "corpora": Target(make_corpus, read_trees),
    "flags": Target(make_flags, run_flags, megabytes=2500, share=0.2),
    "directories": Target(make_directory, run_in_trees, share=0.1),
    "faults": Target(make_fault, run_faults, seconds=120, share=0.01),
}
