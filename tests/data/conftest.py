"""A local web server with good and bad habits, and a small corpus entry that it serves."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pjrope.data import FileEntry

# Longer than one read of the downloader, and not a multiple of it.
CONTENT = b"".join(hashlib.sha256(str(i).encode()).digest() for i in range(8_000)) + b"end"


@dataclass
class Server:
    """A server on 127.0.0.1; `habit` decides how the next requests are answered."""

    port: int = 0
    habit: str = "good"
    streamed: int = 0
    requests: list[dict[str, str]] = field(default_factory=list)

    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/input.txt"


ENDLESS = 64 << 20


def stream_endlessly(handler: BaseHTTPRequestHandler, state: Server) -> None:
    """Send bytes without announcing a length, until the client hangs up or 64 MiB are out."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while state.streamed < ENDLESS:
            handler.wfile.write(bytes(1 << 18))
            state.streamed += 1 << 18


def answer(handler: BaseHTTPRequestHandler, habit: str) -> None:
    if habit.isdigit():
        return handler.send_error(int(habit))
    if habit == "busy":
        handler.send_response(429)
        handler.send_header("Retry-After", "7")
        handler.end_headers()
        return None
    if habit == "silent":
        time.sleep(1.0)
        return None
    body = {
        "short": CONTENT[:1000],
        "long": CONTENT + b"more",
        "altered": b"X" + CONTENT[1:],
        "html": b"<html>please log in</html>",
    }.get(habit, CONTENT)
    asked = handler.headers.get("Range")
    if habit == "wrong-range-always":
        asked = asked or "bytes=0-"
    if asked and habit != "no-range":
        start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(body):
            return handler.send_error(416)
        shown = start + 1 if habit.startswith("wrong-range") else start
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes {shown}-{len(body) - 1}/{len(body)}")
        body = body[start:]
    else:
        handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2] if habit == "drops" else body)
    return None


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append(dict(self.headers.items()))
            if state.habit == "endless":
                stream_endlessly(self, state)
            else:
                answer(self, state.habit)

        def log_message(self, *args: object) -> None:
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = web.server_address[1]
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    # A proxy set for the machine must not come between the test and its own server.
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield state
    web.shutdown()
    web.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _no_user_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PJROPE_DATA_MIRROR", raising=False)
    monkeypatch.delenv("PJROPE_DATA", raising=False)


@pytest.fixture
def make_entry() -> Callable[..., FileEntry]:
    def make(*urls: str) -> FileEntry:
        return FileEntry(
            corpus="sample",
            name="input.txt",
            urls=urls,
            bytes=len(CONTENT),
            sha256=hashlib.sha256(CONTENT).hexdigest(),
            licence="none",
            mirror_path="sample/input.txt",
        )

    return make


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A mirror folder that holds the sample file."""
    file = tmp_path / "mirror" / "sample" / "input.txt"
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    return tmp_path / "mirror"


def _find_real_mirror() -> Path | None:
    # Read at import: the autouse fixture hides the variable from the tests themselves.
    chosen = os.environ.get("PJROPE_DATA_MIRROR")
    folder = Path(chosen) if chosen else Path(__file__).resolve().parents[3] / "shared" / "data"
    return folder if folder.is_dir() else None


_REAL_MIRROR = _find_real_mirror()


@pytest.fixture
def real_mirror() -> Callable[..., Path]:
    """Give the folder with the real corpora, or skip by the name of the file that it lacks."""

    def find(*paths: str) -> Path:
        for path in paths:
            if _REAL_MIRROR is None or not (_REAL_MIRROR / path).is_file():
                pytest.skip(f"no {path} in $PJROPE_DATA_MIRROR or ../shared/data")
        assert _REAL_MIRROR is not None
        return _REAL_MIRROR

    return find
