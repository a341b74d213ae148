"""An exact answer, and what it took to find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from paimon_pyds.query.indexed_file import IndexedFile
    from paimon_pyds.read import FileTrace

__all__ = ["Answer", "Tally"]

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """An exact answer, and what it took.

    Attributes:
        value: the answer.
        files_by_metadata: files that partition values, row counts and statistics answered for.
        files_by_index: files that indexes answered for; deletion vectors are read along with them.
        files_read: files of which data was read.
        bytes_read: bytes asked of the storage for it: indexes, deletion vectors, data; metadata aside.
    """

    value: T
    files_by_metadata: int = 0
    files_by_index: int = 0
    files_read: int = 0
    bytes_read: int = 0

    @property
    def index_only(self) -> bool:
        """Whether no data file was read."""
        return self.files_read == 0

    @property
    def source(self) -> Literal["metadata", "index", "data"]:
        """The most costly thing that was asked: ``metadata``, ``index``, or ``data``."""
        return "data" if self.files_read else "index" if self.files_by_index else "metadata"


class Tally:
    """Counts what an answer takes."""

    def __init__(self, on_file: Callable[[FileTrace], None] | None = None) -> None:
        self._on_file = on_file
        self._metadata = self._index = self._read = self._bytes = 0

    def answered(self, file: IndexedFile) -> None:
        """A file was answered without its data."""
        self._bytes += file.bytes_read
        if file.has_asked_index or file.bytes_read:
            self._index += 1
        else:
            self._metadata += 1

    def count_bytes_of(self, file: IndexedFile) -> None:
        """A file's indexes were asked, and it is read all the same."""
        self._bytes += file.bytes_read

    def read(self, trace: FileTrace) -> None:
        """A file was read."""
        self._read += 1
        self._bytes += trace.counters.bytes_read
        if self._on_file is not None:
            self._on_file(trace)

    def left_out(self, files: int = 1) -> None:
        """Files were left out by their bounds."""
        self._metadata += files

    def answer(self, value: U) -> Answer[U]:
        """The answer with what it took."""
        return Answer(value, self._metadata, self._index, self._read, self._bytes)
