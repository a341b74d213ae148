"""What manifests say of instants in ORC files that name no time zone of their writer.

Java names it in files with a TIMESTAMP column only. But the bounds that it writes to the manifest are right where the
values in the file went by the clocks of its zone, so the two together tell whether they did (`formats.orc.zones`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import is_true
from paimon_pyds.formats.base import InstantBounds, has_kind, is_legacy
from paimon_pyds.predicate.tree import ColumnRef
from paimon_pyds.scan.statistics import statistics_groups
from paimon_pyds.types import UNITS_PER_SECOND, DataField, Kind, timestamp_unit

__all__ = ["instant_bounds"]


def instant_bounds(
    entries: pa.RecordBatch, options: Mapping[str, str], fields_of: Callable[[int], Sequence[DataField]]
) -> list[InstantBounds] | None:
    """Of each entry, the bounds of its columns of instants; none where they are of no use. None for all of them so.

    Args:
        entries: manifest entries (`ENTRY_SCHEMA`).
        options: the table's.
        fields_of: the columns of a schema id.
    """
    if not is_true(pc.ends_with(entries.column("file_name"), pattern=".orc")).any() or not is_legacy(options):
        return None
    wanted = {id_: _wanted(fields_of(id_)) for id_ in entries.column("schema_id").unique().to_pylist()}
    if not any(wanted.values()):
        return None
    found: list[InstantBounds] = [()] * entries.num_rows
    for group in statistics_groups((), entries, fields_of):
        rows = group.rows.tolist()
        stats = group.read()
        if stats is None:
            continue
        for field in wanted[entries.column("schema_id")[rows[0]].as_py()]:
            bounds = stats.of(ColumnRef(field.name))
            if bounds is None:
                continue
            per_milli = UNITS_PER_SECOND[timestamp_unit(field.type)] // 1000
            low, high = (pc.cast(a, pa.int64()).to_pylist() for a in (bounds.min, bounds.max))
            for i, least, most in zip(rows, low, high, strict=True):
                if least is not None and most is not None:
                    found[i] += ((field.name, least // per_milli, most // per_milli),)
    return found


def _wanted(fields: Sequence[DataField]) -> list[DataField]:
    """The columns of instants, unless the file names its zone for the sake of another column."""
    if any(has_kind(field.type, Kind.TIMESTAMP) for field in fields):
        return []
    return [field for field in fields if field.type.kind is Kind.TIMESTAMP_LTZ]
