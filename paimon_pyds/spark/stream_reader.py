"""``spark.readStream`` of a table: the offsets of Spark are positions of `paimon_pyds.engine.stream`.

Spark makes several readers for one query, in several processes, and calls ``partitions`` of one that has computed
nothing, so that an offset has all that is needed: each has the start of its stream. ``initialOffset`` is therefore a
constant, and the start of the first batch follows from its end. Spark compares offsets as texts.
(Source: Spark's Python Data Source API, 4.0 to 4.3.)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.text import whole_number
from paimon_pyds.engine.stream import NO_LIMITS, ChangeSplit, ChangeStream, Limits, StreamPosition, place_of
from paimon_pyds.errors import OptionError
from paimon_pyds.keys.merge.key_values import INSERT
from paimon_pyds.spark import compat
from paimon_pyds.spark.catalogs import open_table
from paimon_pyds.spark.clear_errors import clear_errors, clear_iterator
from paimon_pyds.spark.reader import BATCH_ROWS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from paimon_pyds.metadata.store import TableStore
    from paimon_pyds.spark.options import ReadOptions
    from paimon_pyds.spark.state import Loaded

_log = logging.getLogger("paimon_pyds.spark")
_INITIAL: Mapping[str, int | str] = {"version": 1, "start": "initial"}
"""The offset before the first batch."""
POLL_SECONDS = 0.3
"""How long it is not looked for a new snapshot after there was none. Spark would look 80 times a second."""
_LIMITS = {
    "max_files": "read.stream.maxFilesPerTrigger",
    "max_bytes": "read.stream.maxBytesPerTrigger",
    "max_rows": "read.stream.maxRowsPerTrigger",
    "min_rows": "read.stream.minRowsPerTrigger",
    "max_delay_ms": "read.stream.maxTriggerDelayMs",
}
_OF_BATCHES = {"limit": "limit", "top_n": "topn", "explain": "explain", "metadata_columns": "metadata-columns"}


class ChangesPartition(InputPartition):  # type: ignore[misc]
    """The changes that one task reads, one after the other."""

    def __init__(self, splits: Sequence[ChangeSplit]) -> None:
        super().__init__(sum(len(one.split.files) for one in splits))
        self.splits = splits

    def __repr__(self) -> str:
        return f"ChangesPartition({self.value} files)"


def open_stream_reader(schema: StructType, options: ReadOptions, loaded: Loaded | None) -> PaimonStreamReader:
    """A reader of these columns, the user's projection included. Raises OptionError, UnsupportedError: options that
    have no meaning for a stream, tables without one."""
    for attribute, name in _OF_BATCHES.items():
        if getattr(options, attribute):
            raise OptionError(f"{name} is for spark.read, a stream can't have it", hint="leave it out")
    if options.system is not None:
        raise OptionError("system tables can't be read as streams", hint="read.changelog=true gives changes")
    kinds = options.stream.get("other-row-kinds", "refuse")
    if kinds not in ("refuse", "drop"):
        raise OptionError(f"other-row-kinds is refuse or drop, not {kinds!r:.100}")
    reader = PaimonStreamReader(schema, options, loaded)
    reader.limits()
    return reader


class PaimonStreamReader(DataSourceStreamReader, compat.available_now()):  # type: ignore[misc]
    """Reads the changes of a table for Spark. Tasks get the schema only."""

    def __init__(self, schema: StructType, options: ReadOptions, loaded: Loaded | None) -> None:
        self._schema = schema
        self._options = options
        self._loaded = loaded
        self._position: StreamPosition | None = None
        """The end of the last batch: before 4.2 Spark does not say where the next begins."""
        self._target: int | None = None
        """The last snapshot that a run with availableNow reads."""
        self._idle: tuple[StreamPosition, float] | None = None
        """A position after which there was nothing new, and when."""

    def __getstate__(self) -> dict[str, Any]:
        return {"_schema": self._schema}

    @cached_property
    def _store(self) -> TableStore:
        return open_table(self._options)._store

    @cached_property
    def _stream(self) -> ChangeStream:
        from paimon_pyds.spark.projection import resolve_schema
        from paimon_pyds.spark.state import kind_field, stream_schema

        options, store = self._options, self._store
        schema = stream_schema(store, self._loaded)
        kind = None if options.kind_column is None else kind_field(options.kind_column, schema.fields)
        available = [*schema.fields, *(() if kind is None else (kind,))]
        names = resolve_schema(available, compat.target_schema(self._schema))
        return ChangeStream(
            store,
            where=options.where,
            columns=[name for name in names if name != options.kind_column],
            options={name: text for name, text in options.scan.items() if name != "read-optimized"},
            kind_column=options.kind_column if options.kind_column in names else None,
            other_kinds=options.stream.get("other-row-kinds", "refuse"),
            schema_id=schema.id,
        )

    # ------------------------------------------------------------------------------------ how far

    @clear_errors
    def initialOffset(self) -> dict[str, Any]:
        """A constant: Spark may call this for a second time before the first batch, and after others have committed."""
        return dict(_INITIAL)

    @clear_errors
    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """The end of the next batch; the start itself while there is nothing new.

        Spark before 4.2 gives neither argument.
        """
        position = self._known(start)
        limits = NO_LIMITS if compat.takes_all(limit) else self.limits()
        end = self._end(position, limits)
        self._position = end
        return end.to_dict()

    def _known(self, start: Mapping[str, Any] | None) -> StreamPosition:
        if start is not None and start != _INITIAL:
            return StreamPosition.from_json(start)
        if start is not None or self._position is None:
            self._position = self._start
        return self._position

    @cached_property
    def _start(self) -> StreamPosition:
        found = self._stream.start()
        if self._target is not None and found.reads_state:  # committed after the run had begun
            self._target = max(self._target, found.start)
        self._store_progress(lambda: self._stream.confirm(found))
        return found

    def _end(self, position: StreamPosition, limits: Limits) -> StreamPosition:
        now = time.monotonic()
        if self._idle is not None and self._idle[0] == position and now < self._idle[1] + POLL_SECONDS:
            return position
        self._store_progress(self._stream.refresh_consumer)
        newest = None
        if self._target is not None:
            newest = _after(position, self._target)
            limits = replace(limits, min_rows=None, max_delay_ms=None)  # nothing else will come in this run
        end = self._stream.end(position, limits, None if newest == position else newest)
        if newest == position:
            end = position  # that looked only whether the table was rolled back
        self._idle = (position, now) if end == position else None
        return end

    def limits(self) -> Limits:
        """The limits of the options. Raises OptionError."""
        found = {}
        for attribute, name in _LIMITS.items():
            text = self._options.stream.get(name.lower())
            found[attribute] = None if text is None else whole_number(text)
            if text is not None and not found[attribute]:
                raise OptionError(f"{name} is a whole number above 0, not {text!r:.100}")
        if (found["min_rows"] is None) != (found["max_delay_ms"] is None):
            raise OptionError(f"{_LIMITS['min_rows']} and {_LIMITS['max_delay_ms']} need each other", hint="give both")
        return Limits(**found)

    @clear_errors
    def getDefaultReadLimit(self) -> Any:
        """The limit that Spark gives to `latestOffset` (4.2 and later)."""
        limits = self.limits()
        return compat.default_read_limit(
            max_files=limits.max_files, max_bytes=limits.max_bytes, max_rows=limits.max_rows, min_rows=limits.min_rows
        )

    @clear_errors
    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The newest snapshot, for the progress of the query (4.2 and later)."""
        if self._position is None:
            return None
        if self._idle is not None:
            return self._position.to_dict()
        return _after(self._position, self._newest()).to_dict()

    @clear_errors
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the snapshot at which a run with availableNow ends (4.2 and later)."""
        self._target = self._newest()

    def _newest(self) -> int:
        return self._store.again().latest_snapshot_id() or 0

    # ------------------------------------------------------------------------------------ what is read

    @clear_errors
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """What the tasks read of a batch."""
        last = StreamPosition.from_json(end)
        first = _beginning(last) if start == _INITIAL else StreamPosition.from_json(start)
        self._position = last
        if first == last:
            return []  # after a restart: the files of that batch may be gone
        splits = self._stream.splits(first, last, by_bucket=True)
        ordered = bool(self._stream.schema.primary_keys)
        return [ChangesPartition(group) for group in (_in_order(splits) if ordered else [[one] for one in splits])]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in exactly the schema that Spark wants. Runs in a task."""
        return clear_iterator(self._batches(partition))

    def _batches(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        from paimon_pyds.spark.arrow import conform_batch

        target = compat.target_schema(self._schema)
        for split in partition.splits if isinstance(partition, ChangesPartition) else ():
            for batch in split.read(BATCH_ROWS):
                yield conform_batch(batch, target)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Store the progress of the consumer, if the options name one."""
        self._store_progress(lambda: self._stream.confirm(StreamPosition.from_json(end)))

    def _store_progress(self, store: Callable[[], None]) -> None:
        """A failure is no reason to end the query: the consumer is behind then, and snapshots stay longer."""
        try:
            store()
        except Exception as error:  # noqa: BLE001 - whatever it is
            _log.warning("the consumer's progress was not stored: %s", error)


def _beginning(position: StreamPosition) -> StreamPosition:
    """Where the stream of a position starts."""
    return replace(position, next=position.start, splits=0, rows=0, plan="", last="")


def _after(position: StreamPosition, snapshot: int) -> StreamPosition:
    """The position after a snapshot, to compare with others; the given one where that is further."""
    if snapshot < position.next:
        return position
    return replace(position, next=snapshot + 1, splits=0, rows=0, plan="")


def _in_order(splits: Sequence[ChangeSplit]) -> list[list[ChangeSplit]]:
    """Splits for different tasks, which run at the same time: all changes of a key go to one task, in their order.

    A state is planned so, other splits that share a bucket go together.
    """
    if all(one.kind == INSERT and one.snapshots == splits[0].snapshots for one in splits):
        return [[one] for one in splits]
    place = place_of(file for one in splits for file in one.split.files)
    groups: list[tuple[set[Any], list[int]]] = []
    for number, one in enumerate(splits):
        buckets: set[Any] = {place(file) for file in one.split.files}
        joined = [group for group in groups if group[0] & buckets]
        groups = [group for group in groups if not group[0] & buckets]
        numbers = sorted([number, *(n for group in joined for n in group[1])])
        groups.append((buckets.union(*(group[0] for group in joined)), numbers))
    return [[splits[number] for number in numbers] for _, numbers in groups]
