"""MIDI files written byte by byte, so that they can be as wrong as real ones."""

from __future__ import annotations


def variable(number: int) -> bytes:
    """A number of seven bits a byte, of any size."""
    found = [number & 0x7F]
    while number := number >> 7:
        found.append(number & 0x7F | 0x80)
    return bytes(reversed(found))


def event(delta: int, *data: int) -> bytes:
    return variable(delta) + bytes(data)


def meta(delta: int, code: int, data: bytes) -> bytes:
    return variable(delta) + bytes([0xFF, code]) + variable(len(data)) + data


def tempo(delta: int, microseconds: int) -> bytes:
    return meta(delta, 0x51, microseconds.to_bytes(3, "big"))


END = meta(0, 0x2F, b"")


def track(*events: bytes, end: bytes = END) -> bytes:
    body = b"".join(events) + end
    return b"MTrk" + len(body).to_bytes(4, "big") + body


def midi(*tracks: bytes, kind: int = 1, division: int = 480, count: int | None = None) -> bytes:
    head = kind.to_bytes(2, "big") + (len(tracks) if count is None else count).to_bytes(2, "big")
    return (
        b"MThd"
        + bytes([0, 0, 0, 6])
        + head
        + (division & 0xFFFF).to_bytes(2, "big")
        + b"".join(tracks)
    )


def note(delta: int, pitch: int, length: int, velocity: int = 80) -> bytes:
    return event(delta, 0x90, pitch, velocity) + event(length, 0x80, pitch, 64)
