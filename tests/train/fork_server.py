"""Forks processes from one that has imported torch and computed nothing, so that they start quickly.

`Popen` and `run` are used like subprocess's own, for commands that begin with this interpreter. They start a real
process, a child of ours, with the given environment, directory, streams and session: it can be killed, interrupted,
stopped and waited for. This does not test what a fresh start does, above all imports, so each kind of start also has a
test with a real one. With `ranks`, the processes that torchrun's agent starts are forked, too.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

_LOADED = (
    *("coverage", "numpy.random", "safetensors.torch", "torch._dynamo", "torch.distributed.launcher.api"),
    *("torch.distributed.checkpoint.hf_storage", "torch.distributed.checkpoint.state_dict_saver"),
    *("torch.distributed.fsdp", "torch.distributed.elastic.agent.server.local_elastic_agent"),
    *("nanopace.cli.commands.train", "nanopace.cli.display.display", "nanopace.train.run"),
)
_ADOPT_ORPHANS = 36  # prctl's PR_SET_CHILD_SUBREAPER
_LARGEST = 1 << 20  # bytes of a request
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # by the server, which ends with the process it serves

_server: socket.socket | None = None


def run(
    words: list[str], *, timeout: float | None = None, ranks: bool = False, **how: Any
) -> subprocess.CompletedProcess[str]:
    """What it printed and its exit code."""
    with Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, ranks=ranks, **how) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
    return subprocess.CompletedProcess(words, process.returncode, out, err)


class Popen(subprocess.Popen[Any]):
    """The server's child is orphaned right away, and we adopt orphans, so it becomes ours."""

    def __init__(self, args: Sequence[str], *, ranks: bool = False, **how: Any) -> None:
        self._ranks = ranks
        super().__init__(args, **how)

    def _execute_child(self, *given: Any) -> None:
        words, directory, environment, session = given[0], given[5], given[6], given[21]
        assert words[0] == sys.executable, words
        pipes = given[10:16]  # both ends for stdin, stdout and stderr
        streams = [fd if fd >= 0 else inherited for inherited, fd in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = {
            "words": [str(word) for word in words],
            "directory": str(directory or os.getcwd()),
            "environment": dict(os.environ if environment is None else environment),
            "session": session,
            "ranks": self._ranks,
        }
        server = _started()
        prctl = ctypes.CDLL(None).prctl
        prctl(_ADOPT_ORPHANS, 1)
        try:
            socket.send_fds(server, [json.dumps(request).encode()], streams)
            self.pid = int(server.recv(32))
        finally:
            prctl(_ADOPT_ORPHANS, 0)
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self._child_created = True


if not sys.platform.startswith("linux"):  # only Linux lets us adopt orphans

    class Popen(subprocess.Popen[Any]):  # type: ignore[no-redef]
        def __init__(self, args: Sequence[str], *, ranks: bool = False, **how: Any) -> None:  # noqa: ARG002
            super().__init__(args, **how)


def _started() -> socket.socket:
    """One server for all tests of this process."""
    global _server
    if _server is None:
        _server, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        bare = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        words = [sys.executable, __file__, str(theirs.fileno())]
        subprocess.Popen(words, pass_fds=[theirs.fileno()], env={**bare, "OMP_NUM_THREADS": "1"})
        theirs.close()
    return _server


# --- the server ------------------------------------------------------------------------------------------------------


def _serve(connection: socket.socket) -> dict[str, Any]:
    """Returns in each requested process, with what it should become."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    while True:
        asked, streams, *_ = socket.recv_fds(connection, _LARGEST, 3)
        if not asked:
            os._exit(0)
        reading, writing = os.pipe()
        between = os.fork()
        if between:
            os.waitpid(between, 0)
            connection.send(os.read(reading, 32))
            for each in (reading, writing, *streams):
                os.close(each)
            continue
        if process := os.fork():
            os.write(writing, str(process).encode())
            os._exit(0)
        connection.close()
        for number, each in enumerate(streams):
            os.dup2(each, number)
        for each in (reading, writing, *streams):
            os.close(each)
        request: dict[str, Any] = json.loads(asked)
        return request


def _become(request: dict[str, Any]) -> None:
    """Set the process up like a fresh start, then run what it was started for."""
    if request["session"]:
        os.setsid()
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if request["ranks"]:
        fork_ranks()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    words = request["words"][1:]
    unbuffered = words[0] == "-u" or bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _stream(1, "strict", unbuffered)
    sys.stderr = sys.__stderr__ = _stream(2, "backslashreplace", unbuffered)
    sys.modules["coverage"].process_startup(force=True)  # where the environment asks for it
    sys.path[:0] = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    _execute(words[1:] if words[0] == "-u" else words)


def _stream(number: int, errors: str, unbuffered: bool) -> io.TextIOWrapper:
    binary = open(number, "wb", buffering=0 if unbuffered else -1, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(
        binary,
        encoding="utf-8",
        errors=errors,
        write_through=unbuffered,
        line_buffering=number == 2 or os.isatty(number),
    )


def _execute(words: list[str]) -> None:
    """As the interpreter would, with these arguments."""
    kind, *rest = words
    if kind == "-m":
        sys.argv = rest
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = [kind, *rest[1:]]
        sys.path.insert(0, "")
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)  # noqa: S102
    else:
        sys.argv = words
        sys.path.insert(0, os.path.dirname(kind))
        runpy.run_path(kind, run_name="__main__")


def fork_ranks() -> None:
    """Let a separate server fork the processes that torchrun's agent starts here; this process must not have any
    threads yet."""
    global _server
    _server, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork():
        theirs.close()
        handler = import_module("torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler")
        handler.Popen = Popen
        return
    _server.close()
    _load()
    _live(_serve(theirs))


def _load() -> None:
    """Import everything training needs before the first fork, and freeze it for the garbage collector."""
    for name in _LOADED:
        import_module(name)
    gc.freeze()


def _live(request: dict[str, Any]) -> NoReturn:
    """Run to the end, without tearing down modules: with torch's, that takes longer than everything else."""
    code: Any = None
    try:
        _become(request)
    except SystemExit as end:
        code = end.code
        if not isinstance(code, int | None):
            raise
    if "RANK" in os.environ:
        sys.exit(code)  # a thread of gloo's that outlives the interpreter aborts the process, which shall be seen
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    sys.path.pop(0)  # the tests' own folder
    _load()
    _live(_serve(socket.socket(fileno=int(sys.argv[1]))))
