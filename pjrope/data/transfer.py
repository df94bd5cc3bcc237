"""One HTTP transfer into a growing file: resumed where possible, every failure one clear line."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tqdm.auto import tqdm

from pjrope.data.manifest import DataError

# Some hosts answer 403 to urllib's own name.
USER_AGENT = "pjrope-data/1"
TIMEOUT_S = 30.0
CHUNK = 1 << 16
TRIES, PAUSE_S, LONGEST_PAUSE_S = 4, 2.0, 60.0
_BUSY = (429, 503)
_ADVICE = {
    403: "the server refuses this client or network",
    404: "the file was moved or removed there",
    429: f"the server asks for fewer requests and did so {TRIES} times; try again later",
}


def grow(part: Path, url: str, *, size: int | None, label: str, progress: bool) -> bool:
    """Let `part` grow to what `url` serves, going on from the bytes it already holds.

    A server that ignores the range is read from zero, and so is one that answers with another
    range than was asked for. One that is busy (429, 503) is asked again after the pause it names.
    The contents are not verified here.

    Args:
        part: file to write; an existing one is taken as the beginning of the download.
        url: http or https address.
        size: bytes that the whole file has, more than that is refused; None when unknown.
        label: name shown at the progress bar.
        progress: show a bar after five seconds.

    Returns:
        True when bytes of an earlier call were reused.

    Raises:
        DataError: for every network or server failure. After a broken transfer `part` keeps what
            arrived.
        OSError: when `part` cannot be written.
    """
    start = part.stat().st_size if part.exists() else 0
    if start == size:
        return True
    if size is not None and start > size:
        part.unlink()
        start = 0
    response, start = _agreed(url, start)
    with response:
        total = size if size is not None or response.length is None else start + response.length
        bar = tqdm(
            desc=label, total=total, initial=start, unit="B", unit_scale=True,
            delay=5, disable=not progress, leave=False,
        )  # fmt: skip
        held = start
        with bar, open(part, "ab" if start else "wb") as out:
            for chunk in _chunks(url, response, part):
                held += len(chunk)
                if size is not None and held > size:
                    break
                out.write(chunk)
                bar.update(len(chunk))
    if size is not None and held > size:
        part.unlink()
        raise DataError(f"{url} refused, too long: more than the expected {size:,} bytes")
    return start > 0


def _agreed(url: str, asked: int) -> tuple[http.client.HTTPResponse, int]:
    """Open the address at a byte, or at zero where the server gives no such range."""
    response = _open(url, asked)
    if response.status != 206:
        return response, 0
    given = response.headers.get("Content-Range", "")
    if given.startswith(f"bytes {asked}-"):
        return response, asked
    response.close()
    response = _open(url, 0)
    if response.status != 200:
        response.close()
        raise DataError(f"{url} answered with range {given!r} where byte {asked:,} was asked for")
    return response, 0


def _open(url: str, start: int) -> http.client.HTTPResponse:
    headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(url, headers=headers)
    try:
        response = _patiently(request)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and start:
            # The file over there ends before our beginning does: that beginning is of no use.
            return _open(url, 0)
        advice = _ADVICE.get(error.code, "try again later")
        raise DataError(f"{url} answered {error.code} {_told(error.reason)}: {advice}") from None
    except TimeoutError:
        raise DataError(_silent(url)) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise DataError(_silent(url)) from None
        raise DataError(f"no connection to {url} ({_told(error.reason)})") from None
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"no connection to {url} ({_told(error)})") from None
    assert isinstance(response, http.client.HTTPResponse)
    return response


def _patiently(request: urllib.request.Request) -> object:
    """Open a request; a server that is busy is asked again, a few times."""
    for tried in range(1, TRIES + 1):
        try:
            return urllib.request.urlopen(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as error:
            if error.code not in _BUSY or tried == TRIES:
                raise
            error.close()
            named = error.headers.get("Retry-After", "")
            pause = float(named) if named.isdecimal() else PAUSE_S * 2 ** (tried - 1)
            time.sleep(min(pause, LONGEST_PAUSE_S))
    raise AssertionError("the loop returns or raises")


def _chunks(url: str, response: http.client.HTTPResponse, part: Path) -> Iterator[bytes]:
    announced = response.length
    received = 0
    failure = "the server closed the connection early"
    while True:
        try:
            chunk = response.read(CHUNK)
        except (OSError, http.client.HTTPException) as error:
            failure = _told(error)
            break
        if not chunk:
            if announced is None or received >= announced:
                return
            break
        received += len(chunk)
        yield chunk
    raise DataError(f"{url} broke off ({failure}); run again to go on from {part}")


def _silent(url: str) -> str:
    return f"{url} did not answer within {TIMEOUT_S:g} s"


def _told(error: object) -> str:
    # Exceptions of this kind may hold line breaks; an error message of ours is one line.
    return " ".join(str(error).split()) or type(error).__name__
