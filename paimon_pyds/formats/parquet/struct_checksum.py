"""Checksums of what Parquet has none for: footers and page indexes, where a flipped bit may lose rows.

Parquet keeps field 32767 of every struct, of type binary, for extensions: readers that don't know one skip it, and the
extension ends with a UUID that names it. Ours is the last field, and holds the checksum (uint32, little-endian) of the
bytes before it.
Source: apache/parquet-format, BinaryProtocolExtensions.md.
"""

from __future__ import annotations

from paimon_pyds.checksum import checksum
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.parquet.thrift import BINARY, encode_struct

__all__ = ["check_struct", "with_checksum"]

_FIELD = 32_767
_UUID = bytes.fromhex("6f1d5b0e9c7a4c0f8a53c1f2b7e4d690")
_LENGTH = len(encode_struct({_FIELD: (BINARY, bytes(4) + _UUID)}))
_NEAR = _LENGTH + 8


def with_checksum(message: bytes) -> bytes:
    """A struct with the checksum of its other fields at the end."""
    body = message[:-1]  # without the stop byte
    return body + encode_struct({_FIELD: (BINARY, checksum(body).to_bytes(4, "little") + _UUID)})


def check_struct(message: bytes, name: str) -> None:
    """Hold a struct against its checksum, where it has one. Raises CorruptFileError."""
    end = message[-_NEAR:]
    named = _UUID[:8] in end or _UUID[8:] in end  # damage to the name is no reason to believe the rest
    if named and message != with_checksum(message[:-_LENGTH] + b"\0"):
        raise CorruptFileError("the bytes do not have their checksum", field=name)
