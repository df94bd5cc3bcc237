"""One HTTP transfer into a growing file: resumed where possible, every failure one clear line."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tqdm.auto import tqdm  # type: ignore[import-untyped]

from pjrope.data.manifest import DataError

# Some hosts answer 403 to urllib's own name.
USER_AGENT = "pjrope-data/1"
TIMEOUT_S = 30.0
CHUNK = 1 << 16
_ADVICE = {
    403: "the server refuses this client or network",
    404: "the file was moved or removed there",
}


def grow(part: Path, url: str, *, size: int, label: str, progress: bool) -> bool:
    """Let `part` grow to what `url` serves, going on from the bytes it already holds.

    A server that ignores the range is read from zero. The contents are not verified here.

    Args:
        part: file to write; an existing one is taken as the beginning of the download.
        url: http or https address.
        size: bytes that the whole file has; more than that is refused.
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
    if start > size:
        part.unlink()
        start = 0
    with _open(url, start) as response:
        start = _agreed_start(url, response, start)
        bar = tqdm(
            desc=label, total=size, initial=start, unit="B", unit_scale=True,
            delay=5, disable=not progress, leave=False,
        )  # fmt: skip
        held = start
        with bar, open(part, "ab" if start else "wb") as out:
            for chunk in _chunks(url, response, part):
                held += len(chunk)
                if held > size:
                    break
                out.write(chunk)
                bar.update(len(chunk))
    if held > size:
        part.unlink()
        raise DataError(f"{url} refused, too long: more than the expected {size:,} bytes")
    return start > 0


def _open(url: str, start: int) -> http.client.HTTPResponse:
    headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and start:
            # The file over there ends before our beginning does: that beginning is of no use.
            return _open(url, 0)
        advice = _ADVICE.get(error.code, "try again later")
        raise DataError(f"{url} answered {error.code} {error.reason}: {advice}") from None
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


def _agreed_start(url: str, response: http.client.HTTPResponse, asked: int) -> int:
    """Return the offset at which the answer begins: the one asked for (206), or zero (200)."""
    if response.status != 206:
        return 0
    given = response.headers.get("Content-Range", "")
    if not given.startswith(f"bytes {asked}-"):
        raise DataError(f"{url} answered with range {given!r} where byte {asked:,} was asked for")
    return asked


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
    raise DataError(f"{url} broke off ({failure}); run again to go on from {part.name}")


def _silent(url: str) -> str:
    return f"{url} did not answer within {TIMEOUT_S:g} s"


def _told(error: object) -> str:
    # Exceptions of this kind may hold line breaks; an error message of ours is one line.
    return " ".join(str(error).split()) or type(error).__name__
