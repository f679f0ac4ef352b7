"""The example logs are what their generator writes."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_generator_writes_the_committed_files(tmp_path: Path) -> None:
    script = tmp_path / "make_logs.py"
    script.write_text((EXAMPLES / "make_logs.py").read_text())
    runpy.run_path(str(script), run_name="__main__")
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path != script}
    assert len(written) == 9
    for name, content in written.items():
        assert content == (EXAMPLES / name).read_bytes(), name
