"""Pass a training log through as it grows, and comment on it: slow iterations, time left, alerts."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING

from nanopace.cli.options import add_facts, add_language, bounded, words_of
from nanopace.cli.run_arguments import Settings, read_quietly, settings_of
from nanopace.errors import InputError, UsageError
from nanopace.wording.printable import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from nanopace.live.comments import Say
    from nanopace.live.notify import Channel, Complain
    from nanopace.live.observed import Observer
    from nanopace.live.passthrough import Bytes
    from nanopace.live.reading import Reader
    from nanopace.live.watcher import Watcher
    from nanopace.run import Run
    from nanopace.wording.catalog import Words

MAY_BE_EMPTY = ("words",)  # arguments of the started command may be empty
_LONGEST_SILENCE = 1e7  # seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "python -u train.py | nanopace watch [options]\n"
        "       nanopace watch [options] LOG\n"
        "       nanopace watch [options] --log FILE -- COMMAND ..."
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="LOG",
        help="a growing log, or a directory: its newest log (default: standard input)",
    )
    parser.add_argument(
        "--log", metavar="FILE", help="start COMMAND, send its output to FILE, and follow that: the safest way"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the comments, not the log itself")
    seconds = bounded(float, "number of seconds", lambda seconds: 0 < seconds <= _LONGEST_SILENCE)
    parser.add_argument(
        "--silent",
        type=seconds,
        metavar="SECONDS",
        help="alert after this long without a line (default: depends on the pace of the run)",
    )
    add_facts(parser, "max_iters=5000", "in use")
    group = parser.add_argument_group("a live page in the browser")
    group.add_argument(
        "--web", action="store_true", help="serve a live page of the log, or of every run in a directory"
    )
    group.add_argument("--open", action="store_true", help="open the page in the browser; implies --web")
    port = bounded(int, "port", lambda port: 0 <= port <= 65535)
    group.add_argument("--port", type=port, metavar="N", help="the page's port (default: 8765, or a free one)")
    group.add_argument(
        "--host", metavar="ADDRESS", help="let other machines see the page, with a token (default: this machine only)"
    )
    group.add_argument(
        "--price", metavar="PRICE", help="what a GPU hour or a kWh costs, such as 0.35, '$2.49/h' or '0.30 EUR/kWh'"
    )
    group = parser.add_argument_group("notifications, for alerts and at the end")
    group.add_argument(
        "--notify",
        metavar="COMMAND",
        help="program to run, without a shell; NANOPACE_MESSAGE and other variables say why",
    )
    group.add_argument("--webhook", metavar="URL", help="where to post JSON, such as a Slack or Discord webhook")
    group = parser.add_argument_group("output")
    add_language(group)
    group.add_argument("--no-color", action="store_true", help="plain text (also: set NO_COLOR)")


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    settings = settings_of(args)
    complete = _completion(settings)
    _channels(args, lambda _: None)  # before anything is watched
    if args.web or args.open:
        return _watch_on_a_page(args, words, settings, complete)
    if given := next((name for name in ("host", "port", "price") if getattr(args, name) is not None), None):
        raise UsageError("--{option} needs --web", option=given)
    if args.log is not None:
        return _start_and_watch(args, words, complete)
    if len(args.words) > 1:
        raise UsageError("{word}: one log at a time can be watched (nanopace watch --help)", word=args.words[1])
    if not args.words or args.words == ["-"]:
        return _watch_pipe(args, words, complete)
    if not args.words[0]:
        raise UsageError("argument LOG: must not be empty (nanopace watch --help)")
    return _watch_file(args, words, complete)


def _completion(settings: Settings) -> Callable[[Run], Run]:
    """Returns a function that adds the user's settings to a run."""
    from nanopace.config_text import read_config
    from nanopace.sources.infer.infer import complete

    knobs = None if settings.config is None else read_config(settings.config)
    return lambda run: complete(run, knobs, settings.overrides, settings.gpu)


# --- the three modes -------------------------------------------------------------------------------------------------


def _watch_pipe(
    args: argparse.Namespace, words: Words, complete: Callable[[Run], Run], watched: list[Watcher] | None = None
) -> int:
    """Watch until the pipe closes. Ctrl-C also reaches the trainer, which may want to save and print, so wait for it.
    The watcher is appended to `watched`."""
    from nanopace.live.passthrough import Pipe

    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("nothing is piped in: python -u train.py | nanopace watch, or nanopace watch LOG")
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    _watch(Pipe(sys.stdin.fileno()), None, args, words, complete, threading.Event(), watched=watched)
    return 0


def _watch_file(args: argparse.Namespace, words: Words, complete: Callable[[Run], Run]) -> int:
    """Watch until the run is finished, or Ctrl-C."""
    from nanopace.live.chosen import chosen, newest
    from nanopace.live.document import Document, Waiting, document_format
    from nanopace.live.follow import Follower

    path = chosen(args.words[0], words, _tell)
    stop = _stop_on_signals()
    format = None if args.pattern else document_format(path)
    if format is None:
        _watch(Follower(path, stop), path, args, words, complete, stop)
        return 0
    directory = args.words[0] if os.path.isdir(args.words[0]) else None

    def find() -> str:
        """In a directory, the newest file of this kind: every checkpoint has its own."""
        return path if directory is None else newest(directory, lambda log: document_format(log) == format) or path

    def complain(error: InputError) -> None:
        _tell(words.text("{error}; waiting for more", error=words.error(error)))

    reader = partial(Document, find, complain=complain)
    _watch(Waiting(stop), directory or path, args, words, complete, stop, reader=reader)
    return 0


def _watch_on_a_page(args: argparse.Namespace, words: Words, settings: Settings, complete: Callable[[Run], Run]) -> int:
    """Show files until Ctrl-C. The output of a pipe or a command is passed on as without a page."""
    from nanopace.live.chosen import announce
    from nanopace.price_text import shared_prices

    prices = shared_prices([] if args.price is None else [args.price])
    try:
        from nanopace.live.web.library import Library
        from nanopace.live.web.serve import listen, serve
        from nanopace.live.web.source import PipeSource
    except ImportError:
        raise UsageError("--web needs more packages: pip install 'nanopace[live]'") from None

    listening = listen(args.host, args.port)

    def show(library: Library) -> None:
        opened = _open if args.open else None
        serve(library, words, _tell, listening, host=args.host, prices=prices, ready=opened)

    read = partial(read_quietly, settings=settings)

    def beside(library: Library) -> threading.Thread:
        page = threading.Thread(target=show, args=(library,), name="nanopace-web", daemon=True)
        page.start()
        return page

    if args.log is not None:
        beside(Library([args.log], read, silent_s=args.silent))
        return _start_and_watch(args, words, complete)
    if args.words and args.words != ["-"]:
        for path in args.words:
            if not os.path.exists(path):
                announce(path, words, _tell)
        show(Library(args.words, read, silent_s=args.silent))
        return 0
    watched: list[Watcher] = []
    pipe = PipeSource(lambda: watched[0].diagnosis if watched else None)
    page = beside(Library([], read, silent_s=args.silent, pipe=pipe))
    _watch_pipe(args, words, complete, watched)
    if sys.stdout.isatty():  # an interactive user wants to see how it ended
        _tell(words.text("The log has ended. The page stays until Ctrl-C."))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            page.join()
    return 0


def _open(address: str) -> None:
    import webbrowser

    webbrowser.open(address)


def _start_and_watch(args: argparse.Namespace, words: Words, complete: Callable[[Run], Run]) -> int:
    """The command prints into a file and has its own session, so that it continues whatever happens to us."""
    from nanopace.live.follow import Follower
    from nanopace.live.start import started

    if not args.words:
        raise UsageError("--log {path}: which command? nanopace watch --log {path} -- python train.py", path=args.log)
    stop = _stop_on_signals()
    before = os.path.getsize(args.log) if os.path.exists(args.log) else 0
    process = started(args.words, args.log)
    source = Follower(args.log, stop, before)

    def wait() -> None:
        process.wait()
        source.ended.set()

    threading.Thread(target=wait, name="nanopace-wait", daemon=True).start()
    _watch(source, args.log, args, words, complete, stop, process.poll)
    if process.poll() is None:
        said = words.text(
            "Training continues as process {pid}. To watch it again: nanopace watch {path}; to stop it: kill -INT "
            "{pid}.",
            pid=str(process.pid),
            path=args.log,
        )
        print(f"nanopace: {clean(said)}", file=sys.stderr)
        return 0
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _watch(
    source: Bytes,
    path: str | None,
    args: argparse.Namespace,
    words: Words,
    complete: Callable[[Run], Run],
    stop: threading.Event,
    exit_code: Callable[[], int | None] | None = None,
    reader: Callable[[Observer], Reader] | None = None,
    watched: list[Watcher] | None = None,
) -> None:
    from nanopace.live.notify import Notifier
    from nanopace.live.printer import Printer
    from nanopace.live.session import Session
    from nanopace.live.watcher import Watcher

    sys.stdout.flush()
    terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    color = terminal and not args.no_color and not os.environ.get("NO_COLOR")
    printer = Printer(_output(), terminal=terminal, color=color, encoding=sys.stdout.encoding)

    name = "stdin" if path is None else os.path.basename(path.rstrip("/")) or path
    notifier = Notifier(name, _channels(args, lambda error: printer.comment(words.error(error))))

    def make(say: Say) -> Watcher:
        watcher = Watcher(
            *(name, words, say, complete),
            silent_s=args.silent,
            status_lines=not terminal,
            patterns=args.pattern,
            reader=reader,
        )
        if watched is not None:
            watched.append(watcher)
        return watcher

    session = Session(source, printer, make, words, footer=terminal, quiet=args.quiet, path=path, tell=notifier.tell)
    with closing(notifier):
        session.run(stop, exit_code)


def _channels(args: argparse.Namespace, complain: Complain) -> list[Channel]:
    """Where alerts go besides the person watching. A bad setting is refused."""
    channels: list[Channel] = []
    if args.notify is not None:
        from nanopace.live.notify import Program

        channels.append(Program(args.notify, complain))
    if args.webhook is not None:
        from nanopace.live.webhook import Webhook

        channels.append(Webhook(args.webhook, complain))
    return channels


def _output() -> int:
    """The descriptor of standard output; if that was closed, /dev/null takes its place (cli/streams.py)."""
    try:
        return sys.stdout.fileno()
    except OSError:
        return 1


def _stop_on_signals() -> threading.Event:
    """Ctrl-C ends the watching and nothing else."""
    stop = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: stop.set())
    return stop


def _tell(text: str) -> None:
    print(f"nanopace: {clean(text)}", file=sys.stderr)
