"""Splits → Arrow batches: one file after the other, or several files at a time on threads, always in plan order."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.progress import phase
from paimon_pyds.base.records import dataclass
from paimon_pyds.engine.read.data_file import open_data_file
from paimon_pyds.engine.read.file import DEFAULT_BATCH_ROWS, read_file, read_live
from paimon_pyds.engine.read.live_rows import FileTrace, LiveRows
from paimon_pyds.engine.read.small_files import joined_files, read_small_files
from paimon_pyds.errors import PaimonError
from paimon_pyds.format import WHOLE_FILE
from paimon_pyds.format.batches import bytes_held
from paimon_pyds.format.threads import in_order
from paimon_pyds.keys.merge.filter import merge_filter, merge_keys
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec, Split, result_schema, sections
from paimon_pyds.sql.predicate.tree import Predicate
from paimon_pyds.storage import FIRST_READ, ReadsTogether, reads_together, requests_at_once

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_HELD_BYTES = 128 << 20
"""Bytes that later files may have ready, in addition to a batch of each."""
_FEW_ROWS = 2_048
"""Wanted rows of a file up to which reading them from a store is mostly waiting, and takes little memory."""
_READ_AT_ONCE = 32
FEW_STARTS = 8
"""Indexes up to which threads that read one each take about as long."""
_WHOLE_BYTES = 4 << 20
"""Bytes of files that are read whole, instead of by several requests one after another."""


def read_split(
    split: Split,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    *,
    limit: int | None = None,
    on_file: Callable[[FileTrace], None] | None = None,
    together: int = 1,
) -> Iterator[pa.RecordBatch]:
    """The split's surviving rows, with the schema `result_schema(split.spec)`.

    ``limit``: rows to stop after. ``on_file``: called with the trace of each file when it is done. ``together``: small
    sections that are read together at first.
    """
    left = limit
    for part in _parts(split.spec, split.files, together, ahead=limit is None):
        for section in chain(part.done, part.sections):
            for batch in section.rows(batch_rows, left):
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                if batch.num_rows:
                    yield batch
                if left == 0:
                    break
            if on_file is not None:
                for trace in section.traces:
                    on_file(trace)
            if left == 0:
                return


@dataclass(frozen=True, slots=True)
class _Section:
    """Files that `split.sections` or `joined_files` have together; ``live`` where the indexes of a file were evaluated
    ahead."""

    spec: ReadSpec
    files: Sequence[PlannedFile]
    traces: Sequence[FileTrace]
    live: LiveRows | None = None

    @property
    def is_done(self) -> bool:
        """Whether its index has excluded all rows."""
        return self.live is not None and self.live.candidates.is_none

    def rows(self, batch_rows: int, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """The surviving rows."""
        return with_blobs(self.spec, self._stored(batch_rows, limit))

    def _stored(self, batch_rows: int, limit: int | None) -> Iterator[pa.RecordBatch]:
        if self.live is not None:
            self.live.spec = self.spec
            return read_live(self.live, batch_rows, limit)
        first, last = self.files[0], self.files[-1]
        if first.merged_with != last.merged_with:
            from paimon_pyds.engine.read.small_sections import read_small_sections

            return read_small_sections(self.spec, self.files, self.traces, batch_rows)
        if first.merged:
            from paimon_pyds.engine.read.merged_files import read_merged

            return read_merged(self.spec, self.files, self.traces, batch_rows)
        if len(self.files) > 1:
            return read_small_files(self.spec, self.files, self.traces, batch_rows)
        return read_file(self.spec, self.files[0], batch_rows=batch_rows, trace=self.traces[0], limit=limit)


def with_blobs(spec: ReadSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of a plan as data files have them, with the BLOBs in place of references to them: see `with_bytes`."""
    if spec.references is None:
        return batches
    from paimon_pyds.engine.read.referenced_blobs import with_bytes  # few tables have such

    return with_bytes(spec, spec.references, batches)


class _Part(NamedTuple):
    """Sections to read, and how many of them at a time; 0 for as many as cores are there. ``done`` are others, which
    have no row that is wanted."""

    sections: Iterable[_Section]
    at_once: int = 0
    done: Sequence[_Section] = ()


def _section(spec: ReadSpec, files: Sequence[PlannedFile]) -> _Section:
    return _Section(spec, files, [FileTrace(file.path, file.row_count) for file in files])


def _parts(spec: ReadSpec, files: Sequence[PlannedFile], together: int = 1, *, ahead: bool = True) -> Iterator[_Part]:
    """The sections of some files: on local disks all, of a store as many as have their indexes evaluated at once.
    ``ahead``: as for `_evaluated`."""
    found = (_section(spec, section) for section in joined_files(spec, sections(files), together))
    at_once = requests_at_once(spec.io) if spec.use_index else 0
    if not at_once or all(file.index_path is None for file in files):
        yield _Part(found)
        return
    for window in _evaluated(found, at_once, ahead=ahead):
        left = [section for section in window if not section.is_done]
        spec = replace(spec, read_whole=max(WHOLE_FILE, _WHOLE_BYTES // max(len(left), 1)))
        few = all(s.live and s.live.candidates.count(s.files[0].row_count) <= _FEW_ROWS for s in left)
        yield _Part(
            [replace(section, spec=spec) for section in left],
            min(len(left), _READ_AT_ONCE) if few else 0,
            [section for section in window if section.is_done],
        )


def _evaluated(sections: Iterator[_Section], at_once: int, *, ahead: bool) -> Iterator[list[_Section]]:
    """Sections after the indexes of their files were evaluated, ``at_once`` of them together. ``ahead``: the next ones
    are evaluated meanwhile, on the same threads; a caller with a limit may not want them."""
    first = next(sections, None)
    if first is None:
        return
    sections, io = chain([first], sections), first.spec.io
    if reads_together(io):
        yield from _evaluated_together(io, sections, at_once, ahead=ahead)
    else:
        yield from _evaluated_apart(sections, at_once, ahead=ahead)


def _evaluated_apart(sections: Iterator[_Section], at_once: int, *, ahead: bool) -> Iterator[list[_Section]]:
    """As `_evaluated`, each on a thread that requests what it needs."""
    from paimon_pyds.storage.concurrent import concurrent_map

    window = list(islice(sections, at_once))
    if ahead and len(window) == at_once:
        evaluated = concurrent_map(_with_candidates, chain(window, sections), at_once)
        while window := list(islice(evaluated, at_once)):
            yield window
        return
    while window:
        yield list(concurrent_map(_with_candidates, window, at_once))
        window = list(islice(sections, at_once))


def _evaluated_together(
    io: ReadsTogether, sections: Iterator[_Section], at_once: int, *, ahead: bool
) -> Iterator[list[_Section]]:
    """As `_evaluated`: the starts of indexes are requested by one thread, and evaluated on this one, unless more has to
    be requested. ``ahead``: the next ones are requested meanwhile."""
    from concurrent.futures import ThreadPoolExecutor

    from paimon_pyds.storage.concurrent import concurrent_each

    pool = ThreadPoolExecutor(1, thread_name_prefix="paimon-requests")
    try:
        window = _requested(io, islice(sections, at_once), pool)
        while window.sections:
            whole, others = _read(window)
            most = len(others) > len(whole)
            after = None if most or not ahead else _requested(io, islice(sections, at_once), pool)
            concurrent_each(_evaluate, others + [live for live in whole if _needs_vector(live)], at_once)
            yield window.sections
            if most:  # threads request ahead what these have behind their starts
                break
            window = after or _requested(io, islice(sections, at_once), pool)
    finally:
        pool.shutdown(cancel_futures=True)
    yield from _evaluated_apart(sections, at_once, ahead=ahead)


class _Window(NamedTuple):
    """Sections whose indexes are evaluated together. ``starts``: those of the indexes of ``requested``; None where
    none are requested."""

    sections: list[_Section]
    requested: Sequence[LiveRows] = ()
    starts: Future[list[tuple[bytes, int] | None]] | None = None


def _requested(io: ReadsTogether, sections: Iterable[_Section], pool: ThreadPoolExecutor) -> _Window:
    """Request the starts of indexes that are not in memory, unless they are few."""
    window, unread, paths = list(map(_with_live, sections)), list[LiveRows](), list[str]()
    for live in (section.live for section in window if section.live is not None):
        with suppress(PaimonError):  # raised once its rows are wanted
            if (path := live.unread_index) is not None:
                unread.append(live)
                paths.append(path)
    if len(paths) < FEW_STARTS:
        return _Window(window)
    return _Window(window, unread, pool.submit(io.read_starts, paths, FIRST_READ))


def _read(window: _Window) -> tuple[list[LiveRows], list[LiveRows]]:
    """The files whose indexes are in memory now as a whole, or not wanted; and the others."""
    if window.starts is not None:
        with suppress(PaimonError):  # whoever reads one alone meets the same
            for live, start in zip(window.requested, window.starts.result(), strict=True):
                live.start = start
    whole, others = list[LiveRows](), list[LiveRows]()
    for live in (section.live for section in window.sections if section.live is not None):
        (whole if live.has_whole_index else others).append(live)
    return whole, others


def _needs_vector(live: LiveRows) -> bool:
    """Evaluate the index of a file; whether its deletion vector is to be read yet."""
    with _evaluating(live):
        if live.file.deletion is None or live.by_index.is_none:
            _ = live.candidates
            return False
    return True


def _with_live(section: _Section) -> _Section:
    """The section with what evaluates its file's index, if it has one."""
    file = section.files[0]
    if file.merged or file.index_path is None or len(section.files) > 1:
        return section
    return replace(section, live=LiveRows(section.spec, file, section.traces[0]))


def _with_candidates(section: _Section) -> _Section:
    """The section after its file's index, if any, was evaluated."""
    section = _with_live(section)
    if section.live is not None:
        _evaluate(section.live)
    return section


def _evaluate(live: LiveRows) -> None:
    with _evaluating(live):
        _ = live.candidates


@contextmanager
def _evaluating(live: LiveRows) -> Iterator[None]:
    start = time.perf_counter()
    try:
        with live.file.must_exist():
            yield
    finally:
        live.close()
        live.trace.millis += (time.perf_counter() - start) * 1000


def read_splits(
    spec: ReadSpec,
    files: Sequence[PlannedFile],
    batch_rows: int = DEFAULT_BATCH_ROWS,
    *,
    limit: int | None = None,
    threads: int = 2,
    on_file: Callable[[FileTrace], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Surviving rows of these files in order, reading up to ``threads`` files at a time.

    Memory is bounded: each thread decodes one file, and at most 128 MiB wait for the consumer.

    ``limit``: rows to stop after; files are read one after the other then. ``threads``: files that are read at a time.
    ``on_file``: called with the trace of each file when it is done.
    """
    if not files:
        return
    with phase("reading", files) as step:
        by_path = {file.path: file for file in files} if step.is_seen else {}

        def done(trace: FileTrace) -> None:
            step.advance([by_path[trace.path]] if by_path else ())
            if on_file is not None:
                on_file(trace)

        if threads <= 1 or len(files) <= 1 or limit is not None:
            yield from read_split(Split.of(spec, files), batch_rows, limit=limit, on_file=done)
            return
        for part in _parts(spec, files):
            for section in part.done:
                done(section.traces[0])
            reads = (_run(section, batch_rows) for section in part.sections)
            for item in in_order(reads, threads=max(threads, part.at_once), held=_HELD_BYTES, size=_bytes_of):
                if isinstance(item, list):
                    for trace in item:
                        done(trace)
                else:
                    yield item


def _run(section: _Section, batch_rows: int) -> Generator[pa.RecordBatch | list[FileTrace], None, None]:
    """The rows of files that are read together, then their traces."""
    yield from section.rows(batch_rows)
    yield list(section.traces)


def _bytes_of(item: pa.RecordBatch | list[FileTrace]) -> int:
    return 0 if isinstance(item, list) else bytes_held(item)


def with_filter(spec: ReadSpec, predicate: Predicate) -> ReadSpec:
    """How to read the rows that match another filter, before and after they are merged; ``filter_fields`` stay as they
    are.

    ``predicate`` is bound to the table's columns, and keeps no row that the plan's filter drops.
    """
    merging = spec.merging
    if merging is not None:
        merging = replace(merging, filter=merge_filter(predicate, merge_keys(merging.schema)))
    return replace(spec, predicate=predicate, merging=merging)


def empty_batch(spec: ReadSpec) -> pa.RecordBatch:
    """A batch of no rows with the result's schema."""
    schema = result_schema(spec)
    return pa.RecordBatch.from_arrays([array([], f.type) for f in schema], schema=schema)


def check_row_counts(spec: ReadSpec, files: Sequence[PlannedFile]) -> None:
    """Hold the rows of data files against what manifests say. Reads footers only, of a few files at a time.

    Raises:
        CorruptFileError: a file has another number of rows, or is no data file.
        SnapshotNotFoundError: a file is gone.
        StorageError: a file can't be read.
    """

    def check(file: PlannedFile) -> None:
        with file.must_exist(), open_data_file(spec, file):
            pass

    from paimon_pyds.storage.concurrent import concurrent_each, threads_for

    concurrent_each(check, files, threads_for(spec.io, min(32, 4 * (os.cpu_count() or 1))))
