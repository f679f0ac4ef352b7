"""The server as a process: it answers, sends updates, passes a pipe through, and exits on request."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")

from nanopace.cli.main import main
from nanopace.live.printer import PREFIX

from ..made_up import HEADER, rows
from .served import PATIENCE_S, Server, served

pytestmark = pytest.mark.slow


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(HEADER + "\n".join(rows(0, 60)) + "\n")
    return path


def get(server: Server, path: str = "/", **headers: str) -> tuple[int, str]:
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    line.request("GET", path, headers=headers)
    answer = line.getresponse()
    return answer.status, answer.read().decode()


def events(server: Server, path: str) -> Iterator[dict[str, object]]:
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    line.request("GET", path)
    answer = line.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    for each in answer:
        if each.startswith(b"data: "):
            yield json.loads(each[6:])


def test_what_is_written_is_told(log: Path) -> None:
    with served(log, "--port=0") as server:
        code, page = get(server)
        assert code == 200
        assert ">train.log</h1>" in page
        assert "Content-Security-Policy" in page
        told = events(server, "/events?run=train.log&lang=de&version=none")
        first = next(told)
        assert "Trainings" in str(first["body"])
        assert first["charts"]
        with log.open("a") as file:
            file.write("\n".join(rows(60, 70, took={64: 2500.0})) + "\n")
        second = next(told)
        assert "run0-times" in {*second["charts"], *second["tails"]}  # type: ignore[misc]
        assert second["version"] != first["version"]
        assert server.interrupt() == 0


def test_beyond_this_machine_a_token_is_needed(log: Path) -> None:
    with served(log, "--port=0", "--host=127.0.0.1") as server:
        assert "?token=" in server.address
        assert get(server)[0] == 401
        assert get(server, "/events?run=train.log")[0] == 401
        token = server.address.split("?")[1]
        assert get(server, f"/?{token}")[0] == 303
        assert get(server, "/", Cookie=f"nanopace-{server.port}={token.removeprefix('token=')}")[0] == 200
        assert get(server, "/", Host="evil.example", Cookie=f"nanopace-{server.port}={token}")[0] == 403


def test_a_pipe_is_passed_on_and_shown(log: Path) -> None:
    with served("--port=0", stdin=subprocess.PIPE) as server:
        assert server.process.stdin is not None
        assert server.process.stdout is not None
        server.process.stdin.write(log.read_text())
        server.process.stdin.flush()
        until = time.monotonic() + PATIENCE_S
        while ">stdin</h1>" not in get(server)[1]:
            assert time.monotonic() < until
            time.sleep(0.1)
        server.process.stdin.close()
        printed = server.process.stdout.read()
        assert (
            "".join(line for line in printed.splitlines(keepends=True) if not line.startswith(PREFIX))
            == log.read_text()
        )
        assert server.process.wait(PATIENCE_S) == 0


def test_a_port_that_is_taken(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["watch", str(log), "--web", f"--port={port}"]) == 2
        assert f"port {port}: Address already in use" in capsys.readouterr().err
        assert main(["watch", "--web", f"--port={port}"]) == 2  # of a pipe, too
        assert f"port {port}: Address already in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--web", "--price=cheap"], "--price cheap: "),
        (["--web", "--port=70000"], "--port"),
        (["--web", "--host=no such host"], "--host no such host: "),
        (["--price=1"], "--price needs --web"),
        (["--port=1"], "--port needs --web"),
    ],
)
def test_what_cannot_be_right_is_one_line(
    log: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(log), *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_without_its_packages_it_says_what_to_install(log: Path, tmp_path: Path) -> None:
    (tmp_path / "stubs").mkdir()
    (tmp_path / "stubs" / "uvicorn.py").write_text("raise ModuleNotFoundError(name='uvicorn')")
    found = subprocess.run(
        [sys.executable, "-m", "nanopace", "watch", str(log), "--web"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path / "stubs")},
        timeout=PATIENCE_S,
    )
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "nanopace: --web needs more packages: pip install 'nanopace[live]'\n"
