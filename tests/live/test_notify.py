"""Who is notified of an alert, and that nothing waits for them."""

from __future__ import annotations

import json
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nanopace.errors import OutputError, UsageError
from nanopace.live import notify, webhook
from nanopace.live.comments import Comment
from nanopace.live.notify import Message, Notifier, Program, split_command
from nanopace.live.webhook import Webhook, check_url, form_of

STALL = Comment("Iteration 5 took 9 s; $(touch evil) `touch evil`", "stall", 5)


def script(tmp_path: Path, body: str) -> str:
    path = tmp_path / "hook.py"
    path.write_text(f"import json, os, sys, time, pathlib\nhere = pathlib.Path({str(tmp_path)!r})\n{body}\n")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))} 'two words'"


@pytest.mark.slow
def test_a_program_finds_what_happened_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    body = "told = {name: value for name, value in os.environ.items() if name.startswith('NANOPACE_')}\n"
    body += "(here / 'told').write_text(json.dumps([sys.argv[1:], told]))"
    failed: list[OutputError] = []
    notifier = Notifier("train.log", [Program(script(tmp_path, body), failed.append)])
    notifier.tell(Comment("nothing to tell"))
    notifier.tell(STALL)
    notifier.close()
    assert failed == []
    told = {"EVENT": "stall", "MESSAGE": STALL.text, "ITERATION": "5", "RUN": "train.log"}
    told = {f"NANOPACE_{name}": value for name, value in told.items()}
    assert json.loads((tmp_path / "told").read_text()) == [["two words"], told]
    assert not (tmp_path / "evil").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "said"),
    [("sys.exit(3)", "ended with exit code 3"), ("time.sleep(60)", "took longer than 1 s and was stopped")],
)
def test_a_program_that_fails_is_told_once_and_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    monkeypatch.setattr(notify, "LIMIT_S", 1)
    failed: list[OutputError] = []
    notifier = Notifier("train.log", [Program(script(tmp_path, body), failed.append)])
    began_s = time.monotonic()
    notifier.tell(STALL)
    notifier.tell(Comment("over", "ended"))
    assert time.monotonic() - began_s < 0.2
    notifier.close()
    assert [str(error).partition(": ")[2] for error in failed] == [said]


@pytest.mark.parametrize("command", ["no-such-program --x", "'", "", "  "])
def test_a_program_that_is_not_there_is_refused(command: str) -> None:
    with pytest.raises(UsageError, match=r"^--notify "):
        split_command(command)


# --- web hooks -------------------------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Answers with these codes one after another, and then with 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.codes: list[int] = []
        self.posted: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook/secret"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        code = self.server.codes.pop(0) if self.server.codes else 200
        self.server.posted.append(json.loads(body))
        self.send_response(code)
        if code == 302:
            self.send_header("Location", self.server.url)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(webhook, "WAITS_S", (0.01, 0.01))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("codes", "tries", "said"),
    [([], 1, None), ([500, 429], 3, None), ([503] * 9, 3, "HTTP 503"), ([404], 1, "HTTP 404"), ([302], 1, "HTTP 302")],
)
def test_a_web_hook_is_tried_again_where_that_may_help(
    server: Server, codes: list[int], tries: int, said: str | None
) -> None:
    server.codes = codes
    failed: list[OutputError] = []
    notifier = Notifier("train.log", [Webhook(server.url, failed.append)])
    notifier.tell(STALL)
    notifier.close()
    assert len(server.posted) == tries
    posted = {name: value for name, value in server.posted[-1].items() if name != "host"}
    assert posted == {"event": "stall", "message": STALL.text, "iteration": 5, "run": "train.log"}
    assert [str(error) for error in failed] == (
        [f"--webhook 127.0.0.1: the message was not delivered: {said}"] if said else []
    )
    assert not any("secret" in str(error) for error in failed)


def test_a_web_hook_that_nobody_answers_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setattr(notify, "CLOSE_S", 0.3)
    monkeypatch.setattr(webhook, "WAITS_S", (30.0,))
    server.codes = [500]
    notifier = Notifier("train.log", [Webhook(server.url, lambda _: None)])
    began_s = time.monotonic()
    notifier.tell(STALL)
    assert time.monotonic() - began_s < 0.2
    notifier.close()
    assert time.monotonic() - began_s < 5


@pytest.mark.parametrize(
    ("host", "form"),
    [
        ("hooks.slack.com", {"text": "a&lt;b ({node}): x &amp; @everyone"}),
        ("discord.com", {"content": "a<b ({node}): x & @everyone", "allowed_mentions": {"parse": []}}),
        ("ptb.discord.com", {"content": "a<b ({node}): x & @everyone", "allowed_mentions": {"parse": []}}),
        ("notslack.com", {"event": "nan", "message": "x & @everyone", "iteration": 7, "run": "a<b", "host": "{node}"}),
    ],
)
def test_the_form_is_the_host_s(monkeypatch: pytest.MonkeyPatch, host: str, form: dict[str, Any]) -> None:
    monkeypatch.setattr(webhook.platform, "node", lambda: "{node}")
    assert form_of(Message("nan", "x & @everyone", 7, "a<b"), host) == form


def test_discord_takes_no_more_than_2000_characters() -> None:
    assert len(form_of(Message("nan", "x" * 9000, 7, "a"), "discord.com")["content"]) == 2000


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "ftp://h/x",
        "https://",
        "http:///x",
        "https://host:99999/",
        "https://ho st/",
        "https://h/\n",
        "//h/x",
    ],
)
def test_a_bad_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError, match=r"^--webhook: must be an address") as refused:
        check_url(url)
    assert refused.value.values == {}


def test_the_same_alert_is_sent_now_and_then_and_the_end_always(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Message] = []

    class Kept(Program):
        def __init__(self) -> None:
            super().__init__(sys.executable, lambda _: None)

        def deliver(self, message: Message) -> None:
            sent.append(message)

    now_s: list[float] = []
    monkeypatch.setattr(notify.time, "monotonic", lambda: now_s[-1])
    notifier = Notifier("train.log", [Kept()])
    for moment_s in (0.0, 10.0, notify.REPEAT_S + 1):
        now_s.append(moment_s)
        notifier.tell(STALL)
        notifier.tell(Comment("no", "nan"))
        notifier.tell(Comment("over", "ended"))
    monkeypatch.undo()
    notifier.close()
    assert [message.event for message in sent] == ["stall", "nan", "ended", "ended", "stall", "nan", "ended"]
