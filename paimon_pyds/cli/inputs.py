"""Input files of ``paimon-pyds write``: Parquet, ORC, Arrow, CSV, JSON lines, as one stream of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from paimon_pyds.errors import OptionError, SchemaError, StorageError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["open_inputs"]


def open_inputs(paths: Sequence[str]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema of the first file, and the batches of all.

    Raises:
        OptionError: a suffix that names no format.
        StorageError: a file that can't be read.
        SchemaError: a file that is not what its suffix says.
    """
    schema, first = _open(paths[0])
    return schema, _chain(first, paths[1:])


def _chain(first: Iterator[pa.RecordBatch], rest: Sequence[str]) -> Iterator[pa.RecordBatch]:
    yield from first
    for path in rest:
        yield from _open(path)[1]


def _open(path: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    import pyarrow as pa

    try:
        return _by_suffix(path)
    except pa.ArrowException as error:
        raise SchemaError(f"can't read the input: {str(error).splitlines()[0]}", path=path) from error
    except OSError as error:
        raise StorageError(f"can't read the input: {error.strerror or error}", path=path) from error


def _by_suffix(path: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    suffix = path.lower().removesuffix(".gz").rsplit(".", 1)[-1]
    match suffix:
        case "parquet":
            import pyarrow.parquet as pq

            file = pq.ParquetFile(path)
            return file.schema_arrow, file.iter_batches(131_072)
        case "orc":
            import pyarrow.orc as orc

            table = orc.ORCFile(path)
            return table.schema, (table.read_stripe(i) for i in range(table.nstripes))
        case "arrow" | "feather" | "ipc":
            import pyarrow as pa

            reader = pa.ipc.open_file(path)
            return reader.schema, (reader.get_batch(i) for i in range(reader.num_record_batches))
        case "csv":
            import pyarrow.csv as csv

            stream = csv.open_csv(path)
            return stream.schema, iter(stream)
        case "json" | "jsonl" | "ndjson":
            import pyarrow.json as json

            rows = json.read_json(path)
            return rows.schema, iter(rows.to_batches())
    raise OptionError(f"can't tell the format of {path}", hint="use a .parquet, .orc, .arrow, .csv or .jsonl file")
