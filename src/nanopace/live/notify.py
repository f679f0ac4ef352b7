"""Alerts and the end of a run, sent to a program or a webhook; nothing waits for either.

Each has a thread and a short queue. The event is passed in the program's environment, never in its arguments, and
without a shell: nothing in a log is ever executed.
"""

from __future__ import annotations

import os
import queue
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from nanopace.errors import OutputError, UsageError, reason_of
from nanopace.live.comments import Comment, Event
from nanopace.wording.printable import clean

Complain = Callable[[OutputError], None]

REPEAT_S = 300.0  # send the same kind of alert at most this often
LIMIT_S = 30  # time limit of a program
CLOSE_S = 20.0  # how long to wait at the end for unsent messages
_MOST_WAITING = 64  # messages
_LAST: tuple[Event, ...] = ("finished", "ended", "died")  # always sent


class Message(NamedTuple):
    """What a program or a webhook receives."""

    event: str
    text: str
    iteration: int | None
    run: str


class Channel(threading.Thread):
    """Delivers messages in order. The first failure is shown to the user."""

    flag = ""

    def __init__(self, complain: Complain) -> None:
        super().__init__(name=f"nanopace{self.flag}", daemon=True)
        self._complain = complain
        self._messages: queue.Queue[Message | None] = queue.Queue(_MOST_WAITING)
        self._failed = False

    def send(self, message: Message) -> None:
        """Never waits: a message that does not fit is dropped."""
        try:
            self._messages.put_nowait(message)
        except queue.Full:
            self._fail(OutputError("{flag}: too many messages are waiting; this one is dropped", flag=self.flag))

    def close(self) -> None:
        with suppress(queue.Full):  # the thread is abandoned when the wait ends
            self._messages.put_nowait(None)

    def run(self) -> None:
        while (message := self._messages.get()) is not None:
            error = self.deliver(message)
            if error is not None:
                self._fail(error)

    def deliver(self, message: Message) -> OutputError | None:
        """Deliver a message; return why it failed, or None."""
        raise NotImplementedError

    def _fail(self, error: OutputError) -> None:
        if not self._failed:
            self._failed = True
            self._complain(error)


class Program(Channel):
    """--notify: a program that receives the event in its environment."""

    flag = "--notify"

    def __init__(self, command: str, complain: Complain) -> None:
        super().__init__(complain)
        self._words = split_command(command)

    def deliver(self, message: Message) -> OutputError | None:
        name = self._words[0]
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment_of(message, os.environ),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return OutputError("--notify {name}: cannot be started: {reason}", name=name, reason=reason_of(error))
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return OutputError("--notify {name}: took longer than {limit} s and was stopped", name=name, limit=LIMIT_S)
        return OutputError("--notify {name}: ended with exit code {code}", name=name, code=code) if code else None


class Notifier:
    """Sends alerts and the end, limiting how often each kind of alert is sent."""

    def __init__(self, run: str, channels: list[Channel]) -> None:
        self._run = run
        self._channels = channels
        self._sent_s: dict[Event, float] = {}
        for channel in channels:
            channel.start()

    def tell(self, comment: Comment) -> None:
        now = time.monotonic()
        if comment.event is None:
            return
        sent_s = self._sent_s.get(comment.event)
        if sent_s is not None and now - sent_s < REPEAT_S and comment.event not in _LAST:
            return
        self._sent_s[comment.event] = now
        text = clean(comment.text).replace("\u00a0", " ")
        message = Message(comment.event, text, comment.iteration, clean(self._run))
        for channel in self._channels:
            channel.send(message)

    def close(self) -> None:
        """Wait a limited time until everything is sent."""
        until = time.monotonic() + CLOSE_S
        for channel in self._channels:
            channel.close()
        for channel in self._channels:
            channel.join(max(0.0, until - time.monotonic()))


def split_command(command: str) -> list[str]:
    """Split --notify into words like a shell; reject it if there is no such program."""
    import shutil

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError("--notify {command}: {reason}", command=command, reason=error) from None
    if not words or shutil.which(words[0]) is None:
        raise UsageError("--notify {command}: no such program", command=command)
    return words


def environment_of(message: Message, environ: Mapping[str, str]) -> dict[str, str]:
    told = {
        "NANOPACE_EVENT": message.event,
        "NANOPACE_MESSAGE": message.text,
        "NANOPACE_ITERATION": "" if message.iteration is None else str(message.iteration),
        "NANOPACE_RUN": message.run,
    }
    # PYTHONSAFEPATH is ours (cli/main.py): the user's script may import from its own directory.
    return {**{name: value for name, value in environ.items() if name != "PYTHONSAFEPATH"}, **told}
