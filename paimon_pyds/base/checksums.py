"""Checksums of bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

_IMPORT_BYTES = 2 * 1024 * 1024
"""zlib 1.2 computes the CRC-32 of these in about 2 ms, which is what the import of zlib-ng takes."""


class _Crc32:
    """The function of zlib, and of zlib-ng, which is about eight times as fast, once a process has computed it of more
    bytes than its import takes. Where zlib-ng is not installed it stays that of zlib."""

    def __init__(self) -> None:
        self._function: Callable[[bytes | memoryview, int], int] = zlib.crc32
        self._bytes_before_import = _IMPORT_BYTES

    def for_bytes(self, count: int) -> Callable[[bytes | memoryview, int], int]:
        """The function to use for the next ``count`` bytes."""
        if self._bytes_before_import > 0:
            self._bytes_before_import -= count
            if self._bytes_before_import <= 0:
                try:
                    from zlib_ng import zlib_ng
                except ImportError:
                    return self._function
                self._function = zlib_ng.crc32
        return self._function


_CRC32 = _Crc32()


def crc32(data: bytes | memoryview, value: int = 0) -> int:
    """The CRC-32 of some bytes, as `zlib.crc32`; ``value``: that of the bytes before them."""
    return _CRC32.for_bytes(len(data))(data, value)


def crc32s(parts: Sequence[bytes | memoryview]) -> list[int]:
    """The CRC-32 of each of some byte strings."""
    function = _CRC32.for_bytes(sum(map(len, parts)))
    return [function(part, 0) for part in parts]


def checksum(data: bytes | memoryview) -> int:
    """The checksum of some bytes that this package writes: the low four bytes of xxHash64, as in zstandard frames (RFC
    8878, 3.1.1)."""
    import xxhash

    return xxhash.xxh64_intdigest(data) & 0xFFFF_FFFF


def block_checksums(data: bytes | memoryview, block_size: int) -> list[int]:
    """The checksums of blocks of ``block_size`` bytes, the last of which may be shorter."""
    import xxhash

    view, digest = memoryview(data), xxhash.xxh64_intdigest
    return [digest(view[at : at + block_size]) & 0xFFFF_FFFF for at in range(0, len(view), block_size)]
