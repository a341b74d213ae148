"""Statistics of the parts of a batch, as those of as many files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from paimon_pyds.base.types import DataField, arrow_schema, arrow_type, parse_type
from paimon_pyds.errors import SchemaError
from paimon_pyds.format.statistics import StatsCollector, encode_stats
from support.effort import examples
from support.strategies import tables

MODES = ("none", "counts", "full", "truncate(1)", "truncate(16)")


def _of_files(batch: pa.RecordBatch, starts: list[int], dense: bool, *collector: Any) -> list[Any]:
    found = []
    for start, stop in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        stats = StatsCollector(*collector)
        stats.update(batch.slice(start, stop - start))
        found.append(encode_stats(stats.finish(), dense=dense))
    return found


@given(data=st.data(), dense=st.booleans(), file_format=st.sampled_from(["parquet", "orc", "avro"]))
@settings(deadline=None, max_examples=examples(30), phases=[Phase.explicit, Phase.generate])
def test_parts_of_a_batch_have_the_statistics_of_files(data: st.DataObject, dense: bool, file_format: str) -> None:
    fields, table = data.draw(tables())
    batch = pa.Table.from_arrays(table.columns, schema=arrow_schema(fields)).combine_chunks().to_batches()
    if not batch:
        return
    [rows] = batch
    cuts = data.draw(st.sets(st.integers(1, max(1, rows.num_rows - 1)), max_size=6)) - {rows.num_rows}
    starts = [0, *sorted(cuts)]
    modes = [data.draw(st.sampled_from(MODES)) for _ in fields]
    stats, names = StatsCollector(fields, modes, file_format).of_parts(rows, np.array(starts), dense=dense)
    assert [(each, names) for each in stats] == _of_files(rows, starts, dense, fields, modes, file_format)


@pytest.mark.parametrize("type_", ["STRING", "DECIMAL(20, 3)", "INT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP(6)"])
def test_columns_of_null_have_no_bounds(type_: str) -> None:
    fields = [DataField(0, "c", parse_type(type_))]
    rows = pa.record_batch([pa.nulls(5, arrow_type(fields[0].type))], ["c"])
    stats, names = StatsCollector(fields, ["full"]).of_parts(rows, np.array([0, 2]))
    assert [(each, names) for each in stats] == _of_files(rows, [0, 2], True, fields, ["full"])


def test_a_part_with_a_text_that_is_not_utf_8_is_refused() -> None:
    texts = pa.array([b"a", b"\xff", b"b"]).view(pa.string())
    collector = StatsCollector([DataField(0, "name", parse_type("STRING"))], ["full"])
    with pytest.raises(SchemaError, match="column 'name' holds a text that is not UTF-8"):
        collector.of_parts(pa.record_batch([texts], ["name"]), np.array([0, 1]))
