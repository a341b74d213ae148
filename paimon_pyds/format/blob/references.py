"""Values that stand for a BLOB which is elsewhere: descriptors (a part of a file) and views (a row of another table).

    descriptor   2 | int64 magic | int32 length of the URI | URI | int64 offset | int64 length          little-endian
    view         1 | int64 magic | int32 length of the name | database.table | int32 field id | int64 row id

Descriptors of version 1 have no magic. Source: values of Java Paimon 2.1 and pypaimon 2.1; Java's BlobDescriptor and
BlobViewStruct.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from paimon_pyds.base.checksums import crc32
from paimon_pyds.errors import CorruptFileError, SchemaError

_DESCRIPTOR = struct.pack("<q", 0x424C4F4244455343)
_VIEW = struct.pack("<q", 0x424C4F4256494557)
_REFERENCES = struct.pack(">i", 0x50424C52)
MANAGED_SUFFIX = ".managed.blob"
"""How names of files end that have BLOBs of tables with a primary key."""


class BlobDescriptor(NamedTuple):
    """Where a BLOB's bytes are: ``length`` bytes from ``offset`` on of the file at ``uri``; -1: up to its end."""

    uri: str
    offset: int
    length: int


class BlobView(NamedTuple):
    """The row and the column of another table that have a BLOB."""

    table: str
    field_id: int
    row_id: int


def encode_descriptor(descriptor: BlobDescriptor) -> bytes:
    """The bytes of a descriptor."""
    uri = descriptor.uri.encode()
    head = b"\x02" + _DESCRIPTOR + struct.pack("<i", len(uri))
    return head + uri + struct.pack("<qq", descriptor.offset, descriptor.length)


def is_descriptor(value: bytes | memoryview) -> bool:
    """Whether bytes begin as a descriptor of version 2 does."""
    return bytes(value[:9]) == b"\x02" + _DESCRIPTOR


def decode_descriptor(value: bytes | memoryview) -> BlobDescriptor:
    """The descriptor of some bytes. Raises CorruptFileError: they are something else."""
    data = bytes(value)
    if is_descriptor(data):
        at = 9
    elif data[:1] == b"\x01" and not is_view(data):
        at = 1
    else:
        raise CorruptFileError("this is no descriptor of a BLOB", field="version")
    uri, at = _text(data, at, 16)
    offset, length = struct.unpack_from("<qq", data, at)
    if offset < 0 or length < -1:
        raise CorruptFileError(f"a descriptor of {length} bytes from {offset} on", field="offset")
    return BlobDescriptor(uri, offset, length)


def check_references(name: str, values: pa.Array, *, views: bool = False) -> None:
    """Raises SchemaError where a value of a column is something else than NULL or a descriptor, or a view."""
    what = "views of BLOBs (blob-view-field)" if views else "descriptors of BLOBs (blob-descriptor-field)"
    option = "'blob-view.resolve.enabled': 'false'" if views else "'blob-as-descriptor': 'true'"
    for value in values.drop_null().to_pylist():
        try:
            decode_view(value) if views else decode_descriptor(value)
        except CorruptFileError as error:
            raise SchemaError(
                f"column {name!r} takes {what}: {error.message}", hint=f"scans give them with options={{{option}}}"
            ) from error


def is_view(value: bytes | memoryview) -> bool:
    """Whether bytes begin as a view does."""
    return bytes(value[:9]) == b"\x01" + _VIEW


def decode_view(value: bytes | memoryview) -> BlobView:
    """The view of some bytes. Raises CorruptFileError: they are something else."""
    data = bytes(value)
    if not is_view(data):
        raise CorruptFileError("this is no view of a BLOB", field="version")
    name, at = _text(data, 9, 12)
    return BlobView(name, *struct.unpack_from("<iq", data, at))


def _text(data: bytes, at: int, after: int) -> tuple[str, int]:
    """A text with its length before it, and where it ends; ``after`` bytes follow it."""
    length = struct.unpack_from("<i", data, at)[0] if len(data) >= at + 4 else -1
    end = at + 4 + length
    if length < 0 or end + after != len(data):
        raise CorruptFileError(f"a text of {length} bytes in a reference of {len(data)}", offset=at, field="length")
    try:
        return data[at + 4 : end].decode(), end
    except UnicodeDecodeError as error:
        raise CorruptFileError("a text is not UTF-8", offset=at, field="text") from error


def encode_references(uris: Iterable[str]) -> bytes:
    """The bytes of a ``.blobref`` file.

        int32 magic | 1 | int32 number of packs | folder and name of each | uint32 CRC-32 from the 1 on      big-endian

    ``uris``: of files, of which those count that are packs. (Java: class ManagedBlobReferenceFile.)
    """
    packs = sorted(uri.rpartition("/")[::2] for uri in set(uris) if uri.endswith(MANAGED_SUFFIX))
    body = b"".join([b"\x01", struct.pack(">i", len(packs)), *(_java_utf(text) for pack in packs for text in pack)])
    return _REFERENCES + body + struct.pack(">I", crc32(body))


def _java_utf(text: str) -> bytes:
    """A text as Java's DataOutput writes it: its length, then each UTF-16 unit as UTF-8, two bytes for NUL."""
    units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    data = "".join(map(chr, units)).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    return struct.pack(">H", len(data)) + data


def decode_references(data: bytes, path: object) -> list[str]:
    """The packs that a ``.blobref`` file lists, by their paths. Raises CorruptFileError."""
    if data[:4] != _REFERENCES or len(data) < 13 or struct.unpack(">I", data[-4:])[0] != crc32(data[4:-4]):
        raise CorruptFileError("this is no list of packs, or its checksum is wrong", path=path, field="crc")
    version, count = struct.unpack_from(">bi", data, 4)
    if version != 1:
        raise CorruptFileError(f"a list of packs of version {version}, not 1", path=path, field="version")
    texts, at = list[str](), 9
    for _ in range(2 * max(count, 0)):
        end = at + 2 + struct.unpack_from(">H", data, at)[0] if at + 6 <= len(data) else len(data)
        if end > len(data) - 4:
            raise CorruptFileError(f"a list of {count} packs ends before them", path=path, offset=at, field="length")
        texts.append(_java_text(data[at + 2 : end], path))
        at = end
    if count < 0 or at != len(data) - 4:
        raise CorruptFileError(f"a list of {count} packs does not end with them", path=path, offset=at, field="count")
    return [f"{folder}/{name}" for folder, name in zip(texts[::2], texts[1::2], strict=True)]


def _java_text(data: bytes, path: object) -> str:
    try:
        units = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeError as error:
        raise CorruptFileError("the name of a pack is no text", path=path, field="name") from error
