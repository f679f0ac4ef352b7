"""A web server on this machine that serves files, in parts on request, and fails in the ways that servers do."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_ENDLESS = 256 << 20  # bytes: a client that takes this many would take them all, and no disk must fill up


@dataclass
class FileServer:
    """What it serves, how it behaves, and what was requested."""

    files: dict[str, bytes]
    url: str = ""
    ranges: bool = True
    breaks_after: list[int] = field(default_factory=list)  # bytes of a response, after which the connection is cut
    says: list[int] = field(default_factory=list)  # statuses to answer with before it behaves
    names_checksums: bool = False  # like Hugging Face: a redirect that names the sha256
    checksum: str | None = None  # or this instead
    hides_sizes: bool = False
    endless: bool = False  # sends its content repeatedly, without a length (see _ENDLESS)
    leads_to: str | None = None  # redirects everything there
    kind: str | None = None  # the Content-Type
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path and Range

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path, wanted = request.path, request.headers.get("Range")
        if self.leads_to is not None:
            request.send_response(302)
            if self.leads_to:
                request.send_header("Location", self.leads_to)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        data = self.files.get(path.removeprefix("/cdn"))
        if self.names_checksums and not path.startswith("/cdn") and data is not None:
            request.send_response(302)
            request.send_header("X-Linked-Etag", f'"{self.checksum or hashlib.sha256(data).hexdigest()}"')
            request.send_header("Location", f"/cdn{path}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        self.asked.append((path, wanted))
        if self.says:
            request.send_error(self.says.pop(0))
        elif data is None:
            request.send_error(404)
        else:
            self._send(request, data, wanted)

    def _send(self, request: BaseHTTPRequestHandler, data: bytes, wanted: str | None) -> None:
        found = re.fullmatch(r"bytes=(\d+)-", wanted or "")
        begin = int(found[1]) if found and self.ranges else 0
        if begin and begin >= len(data):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(data)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        request.send_response(206 if begin else 200)
        if begin:
            request.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        if self.kind is not None:
            request.send_header("Content-Type", self.kind)
        if not self.hides_sizes and not self.endless:
            request.send_header("Content-Length", str(len(data) - begin))
        request.end_headers()
        end = begin + self.breaks_after.pop(0) if self.breaks_after else len(data)
        request.wfile.write(data[begin:end])
        for _ in range(_ENDLESS // len(data) if self.endless else 0):
            try:
                request.wfile.write(data)
            except OSError:
                return


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[FileServer]:
    """Serve files by their path until the end of the block."""
    server = FileServer(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{web.server_port}"
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        web.shutdown()
        web.server_close()
        thread.join()
