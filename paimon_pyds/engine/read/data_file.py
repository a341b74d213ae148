"""Opening a data file of a plan: by its format, or as what joins the files that hold its columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from paimon_pyds import format as formats
from paimon_pyds.base.options import TableOptions
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format import ReadCounters
from paimon_pyds.keys.merge.key_values import KEY_VALUE_FIELDS
from paimon_pyds.metadata.manifest import is_blob_file
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.row_ids import IN_FILE
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.storage import forget

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import FormatReader

_NUMBERS = KEY_VALUE_FIELDS[0]


@contextmanager
def open_data_file(spec: ReadSpec, file: PlannedFile, counters: ReadCounters | None = None) -> Iterator[FormatReader]:
    """A reader of a data file; of its parts where it has such.

    Raises:
        CorruptFileError: the file is damaged, or has not as many rows as its manifest says.
        FileNotFoundError: it is gone.
        StorageError: it can't be read.
    """
    counters = ReadCounters() if counters is None else counters
    if file.parts and not file.is_joined:
        with closing(_reader_of_ranges(spec, file, counters)) as ranged:
            yield ranged
        return
    if file.parts:
        from paimon_pyds.engine.read.joined_reader import JoinedReader

        with closing(JoinedReader(file, spec.joined(file), partial(open_data_file, spec, counters=counters))) as joined:
            yield joined
        return
    if file.schema_id < 0:
        from paimon_pyds.engine.read.row_id_reader import RowIdReader

        values = file._replace(schema_id=IN_FILE - file.schema_id)  # of the data file itself
        opened = partial(open_data_file, spec, values, counters) if file.schema_id <= IN_FILE else None
        yield RowIdReader(file, opened)
        return
    format_ = (formats.of_directory if spec.of_directory else formats.by_path)(file.path)
    try:
        reader = format_.open_reader(spec.io, file.path, file.size, counters, spec.hints(file))
        try:
            if reader.row_count != file.row_count:
                raise CorruptFileError(
                    f"the data file has {reader.row_count} rows, the manifest says {file.row_count}", path=file.path
                )
            if spec.sequence_gaps is not None and file.path in spec.sequence_gaps and file.ordered_by is None:
                _check_numbers(reader, spec.sequence_gaps[file.path], file)
            yield reader
        finally:
            reader.close()
    except CorruptFileError as error:
        forget(spec.io, file.path)
        error.path = error.path or file.path
        raise


def _reader_of_ranges(spec: ReadSpec, file: PlannedFile, counters: ReadCounters) -> FormatReader:
    """A reader of columns that several files hold, each for some of the rows."""
    begin = file.first_row_id or 0
    if not is_blob_file(file.path):
        from paimon_pyds.engine.read.ranges_reader import RangesReader

        return RangesReader(file, spec.fields_of, partial(open_data_file, spec, counters=counters))
    from paimon_pyds.format.blob.reader import BlobReader, BlobSource

    sources = [
        BlobSource(part.path, part.size, (part.first_row_id or 0) - begin, part.row_count, part.sequence_number or 0)
        for part in file.parts
    ]
    descriptors = TableOptions(spec.options or {}).get("blob-as-descriptor")
    return BlobReader(spec.io, sources, file.row_count, counters, spec.hints(file), as_descriptors=bool(descriptors))


def _check_numbers(reader: FormatReader, gap: tuple[int, int], file: PlannedFile) -> None:
    """Raises CorruptFileError if sequence numbers are not between two others, by the file's statistics."""
    bounds = reader.bounds(_NUMBERS)
    if bounds is None or (gap[0] < bounds[0] and bounds[1] < gap[1]):
        return
    raise CorruptFileError(
        f"the file's sequence numbers are not all between {gap[0]} and {gap[1]}, as the manifests say of this file "
        f"and of others with its keys: which rows are newer is not known",
        path=file.path,
        hint="compact the table with full=True: that goes by the numbers in the files",
    )
