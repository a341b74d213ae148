"""Checksums of bytes."""

from __future__ import annotations


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
