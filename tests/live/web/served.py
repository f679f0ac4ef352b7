"""A real server in its own process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 60.0
IN_A_HURRY = """
import sys
from nanopace.cli.main import main
from nanopace.live.web import app, library, serve
library.SHARE = library.BUSY_SHARE = 1.0
library.FIND_S = app.TICK_S = app.BUSY_TICK_S = 0.1
serve.POLITE = 0
sys.exit(main())
"""


class Server:
    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address = process, address
        self.port = int(re.search(r":(\d+)/", address).group(1))  # type: ignore[union-attr]

    def interrupt(self) -> int:
        """Send Ctrl-C, and return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)


@contextmanager
def served(*arguments: str | Path, stdin: int | None = None, env: dict[str, str] | None = None) -> Iterator[Server]:
    """`nanopace watch ARGUMENTS --web`, once it has printed its address. It need not spare a training run here."""
    command = [sys.executable, "-c", IN_A_HURRY, "watch", *map(str, arguments), "--web", "--lang=en"]
    process = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    kill = threading.Timer(PATIENCE_S, process.kill)
    kill.start()
    try:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if found := re.search(r"http://\S+/\S*", line):
                yield Server(process, found.group())
                break
        else:
            raise AssertionError(said)
    finally:
        kill.cancel()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
