"""Zstandard frames that carry a checksum, so that a flipped bit inside one is noticed by whoever reads it."""

from __future__ import annotations

__all__ = ["with_checksum"]

_DESCRIPTOR = 4
_CHECKSUM_FLAG = 0x04


def with_checksum(frame: bytes, content: bytes) -> bytes:
    """The frame with a checksum of what it holds at its end: pyarrow's codec can't be told to add one.

    Source: RFC 8878, sections 3.1.1 (content checksum: the low four bytes of xxHash64) and 3.1.1.1.1 (descriptor).

    Args:
        frame: one whole frame without checksum, as `pyarrow.Codec("zstd")` gives it.
        content: what was compressed.
    """
    import xxhash

    flagged = bytearray(frame)
    flagged[_DESCRIPTOR] |= _CHECKSUM_FLAG
    return bytes(flagged) + (xxhash.xxh64_intdigest(content) & 0xFFFF_FFFF).to_bytes(4, "little")
