"""One BLOB by its descriptor: read in ranges, as a file, without loading all of it."""

from __future__ import annotations

import io
from typing import Any, BinaryIO, cast

from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.options.option import integer
from paimon_pyds.errors import ArgumentTypeError, OptionError
from paimon_pyds.format.blob.references import BlobDescriptor, decode_descriptor
from paimon_pyds.metadata.paths import file_paths, named_file
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import FileIO

_BUFFER_BYTES = 256 << 10
"""Bytes that a file object reads ahead: a request to a store takes as long as about as many bytes of it."""


class Blob:
    """The bytes that a descriptor stands for. Made by `paimon_pyds.scan.Scan.blob`.

    Attributes:
        uri: the file that has them.
        offset: where they begin in it.
    """

    def __init__(self, io: FileIO, path: str, descriptor: BlobDescriptor) -> None:
        self._io, self._path, self._length = io, path, descriptor.length
        self.uri, self.offset = descriptor.uri, descriptor.offset

    @cached_property
    def size(self) -> int:
        """Its length in bytes."""
        return self._length if self._length >= 0 else max(0, self._io.size(self._path) - self.offset)

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """Some of its bytes, read by one request.

        Args:
            offset: where to begin.
            length: how many; None for all that follow. Fewer are given where it ends before.

        Raises:
            CorruptFileError: the file ends before the BLOB does.
            MissingFileError: the file is gone.
            StorageError: it can't be read.
        """
        if integer("offset", offset) < 0 or (length is not None and integer("length", length) < 0):
            raise OptionError(f"offset and length must not be negative: {offset}, {length}")
        left = max(0, self.size - offset)
        wanted = left if length is None else min(length, left)
        return self._io.read_range(self._path, self.offset + offset, wanted) if wanted else b""

    def open(self) -> BinaryIO:
        """A file object for reading and seeking; nothing is read ahead but a buffer of 256 KiB.

        Returns:
            A binary file, such as ``PIL.Image.open`` and ``zipfile.ZipFile`` take. Its methods raise as `read`.
        """
        return cast(BinaryIO, io.BufferedReader(_Stream(self), _BUFFER_BYTES))

    def __repr__(self) -> str:
        length = "" if self._length < 0 else f", {self._length:,} bytes"
        return f"Blob({self.uri}, from byte {self.offset:,}{length})"


class _Stream(io.RawIOBase):
    def __init__(self, blob: Blob) -> None:
        self._blob, self._at = blob, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._blob.size}.get(whence)
        if start is None or start + offset < 0:
            raise ValueError(f"no place in the BLOB: {offset} from {whence}")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self._blob.read(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def blob_of(store: TableStore, value: object) -> Blob:
    """See `paimon_pyds.scan.Scan.blob`."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise ArgumentTypeError(f"a descriptor is bytes, not {type(value).__name__}")
    descriptor = decode_descriptor(bytes(value))
    external = file_paths(store, store.latest_schema().options, outside=True).external_roots
    return Blob(store.io, named_file(store.root, descriptor.uri, external), descriptor)
