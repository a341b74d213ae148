"""Checksums of ORC files: the format has none, and many a flipped bit in a stream decodes to other values.

The footer has room for what a writer wants to say, which other readers pass over (ORC specification v1, File Tail, User
Metadata). Files written here say, under `NAME`:

    block size uint32 · checksum of the stripe statistics uint32 · checksum of the footer before this item uint32 ·
    per block from the file's first byte to the end of its stripes: checksum uint32

Integers are little-endian. The item is the footer's last field.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from paimon_pyds.checksum import block_checksums, checksum
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.orc.messages import Field, read_message, write_message

__all__ = ["BlockSums", "CheckedRanges", "OrcChecksums", "checksums_of", "sealed_footer"]

NAME = b"paimon_pyds.checksums"
BLOCK_BYTES = 64 << 10
_USER_METADATA = 5
_KEPT_BLOCKS = 16
"""Blocks at the ends of what was read that are kept, as the next read goes on there: a megabyte at most."""


@dataclass(frozen=True, slots=True)
class OrcChecksums:
    """What a file says of itself: of each block of its stripes, and of the stripe statistics."""

    block_size: int
    statistics: int
    blocks: tuple[int, ...]


class BlockSums:
    """The checksums of the blocks of what is written, piece by piece."""

    def __init__(self) -> None:
        self._sums: list[int] = []
        self._pending = bytearray()

    def update(self, data: Any) -> None:
        """Append bytes."""
        view = memoryview(data).cast("B")
        if self._pending:
            room = BLOCK_BYTES - len(self._pending)
            self._pending += view[:room]
            view = view[room:]
            if len(self._pending) < BLOCK_BYTES:
                return
            self._sums.append(checksum(bytes(self._pending)))
            self._pending.clear()
        whole = len(view) // BLOCK_BYTES * BLOCK_BYTES
        self._sums += block_checksums(view[:whole], BLOCK_BYTES)
        self._pending += view[whole:]

    def finish(self) -> list[int]:
        """The checksums of all blocks, the last one shorter."""
        return [*self._sums, *block_checksums(bytes(self._pending), BLOCK_BYTES)]


def sealed_footer(footer: Iterable[Field], statistics: bytes, blocks: list[int]) -> bytes:
    """The message of a footer with the checksums.

    Args:
        footer: the fields.
        statistics: the bytes of the stripe statistics as they are in the file.
        blocks: as `BlockSums` gives them.
    """
    body = write_message(footer)
    value = struct.pack(f"<III{len(blocks)}I", BLOCK_BYTES, checksum(statistics), checksum(body), *blocks)
    return body + _item(write_message([(1, 2, NAME), (2, 2, value)]))


def _item(data: bytes) -> bytes:
    return write_message([(_USER_METADATA, 2, data)])


def checksums_of(footer: bytes, content: int, path: object) -> OrcChecksums | None:
    """The checksums in a footer; None when its writer made none.

    Args:
        footer: the message, after decompression.
        content: bytes of the file before its stripe statistics.
        path: the file, for messages.

    Raises:
        CorruptFileError: the footer does not have its checksum.
    """
    for number, _, item in read_message(footer, path):
        if number != _USER_METADATA or not isinstance(item, bytes):
            continue
        found = {n: value for n, _, value in read_message(item, path)}
        value = found.get(2)
        if found.get(1) != NAME or not isinstance(value, bytes):
            continue
        tail = _item(item)
        if len(value) >= 12 and len(value) % 4 == 0 and footer.endswith(tail):
            size, statistics, body, *blocks = struct.unpack(f"<{len(value) // 4}I", value)
            if body == checksum(footer[: -len(tail)]) and size and len(blocks) == -(-content // size):
                return OrcChecksums(size, statistics, tuple(blocks))
        raise CorruptFileError("the footer does not have its checksum", path=path, field="footer")
    return None


class CheckedRanges:
    """Reads ranges of a file in whole blocks, each held against its checksum.

    Args:
        read: gives the bytes at (offset, length).
        checksums: of the file.
        content: bytes before the stripe statistics: what blocks cover.
        statistics: where the stripe statistics lie, (offset, length).
        path: the file, for messages.
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        checksums: OrcChecksums,
        content: int,
        statistics: tuple[int, int],
        path: object,
    ) -> None:
        self._read = read
        self._checksums = checksums
        self._content = content
        self._statistics = statistics
        self._path = path
        self._kept: OrderedDict[int, bytes] = OrderedDict()

    def read(self, offset: int, length: int) -> bytes:
        """The bytes of a range. Raises CorruptFileError for blocks that do not have their checksum."""
        if offset >= self._content or length <= 0:
            return self._behind(offset, length)
        inside = min(length, self._content - offset)
        data = self._blocks(offset, inside)
        return data if inside == length else data + self._behind(self._content, length - inside)

    def _behind(self, offset: int, length: int) -> bytes:
        data = self._read(offset, length)
        if (offset, length) == self._statistics and checksum(data) != self._checksums.statistics:
            raise CorruptFileError("the stripe statistics do not have their checksum", path=self._path, offset=offset)
        return data

    def _blocks(self, offset: int, length: int) -> bytes:
        size = self._checksums.block_size
        first, stop = offset // size, -(-(offset + length) // size)
        begin = first * size
        head = self._kept.get(first, b"")
        missing = first + bool(head)
        data = head
        if missing < stop:
            at = missing * size
            fresh = self._read(at, min(stop * size, self._content) - at)
            if block_checksums(fresh, size) != list(self._checksums.blocks[missing:stop]):
                raise CorruptFileError(
                    "the bytes do not have their checksum", path=self._path, offset=at, field="checksum"
                )
            self._keep(stop - 1, fresh[(stop - 1 - missing) * size :])
            data = head + fresh if head else fresh
        return data[offset - begin : offset - begin + length]

    def _keep(self, block: int, data: bytes) -> None:
        self._kept[block] = data
        self._kept.move_to_end(block)
        while len(self._kept) > _KEPT_BLOCKS:
            self._kept.popitem(last=False)
