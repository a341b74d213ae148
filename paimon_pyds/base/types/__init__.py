"""Paimon's logical types, their JSON text, and the Arrow types that carry their values.

*Internal values.* A literal in a predicate, a partition value and a statistic are Python objects of one fixed form per
type, so that every evaluator compares the same thing:

    BOOLEAN bool · TINYINT…BIGINT int · FLOAT, DOUBLE float · DECIMAL decimal.Decimal · CHAR, VARCHAR str
    BINARY, VARBINARY bytes · DATE int (days since 1970-01-01) · TIME int (milliseconds of the day)
    TIMESTAMP and TIMESTAMP WITH LOCAL TIME ZONE int, in the unit of the Arrow type (ms, us or ns since the epoch)
"""

from __future__ import annotations

from paimon_pyds.base.types.arrow import (
    arrow_schema,
    arrow_type,
    from_arrow_schema,
    from_arrow_type,
    internal_to_scalar,
    scalar_to_internal,
    timestamp_unit,
)
from paimon_pyds.base.types.kinds import MAX_LENGTH, Kind
from paimon_pyds.base.types.model import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    column_named,
    field_from_json,
    field_to_json,
    fields_named,
    is_system_name,
    parse_type,
    positions_named,
    type_to_json,
    walk_fields,
)

__all__ = [
    "MAX_LENGTH", "ArrayType", "AtomicType", "DataField", "DataType", "Kind", "MapType", "MultisetType", "RowType",
    "VectorType", "arrow_schema", "arrow_type", "column_named", "field_from_json", "field_to_json", "fields_named",
    "from_arrow_schema", "from_arrow_type", "internal_to_scalar", "is_system_name", "parse_type", "positions_named",
    "scalar_to_internal", "timestamp_unit", "type_to_json", "walk_fields",
]  # fmt: skip
