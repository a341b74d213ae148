"""Values from their texts, as Java Paimon reads them in CSV and JSON files."""

from __future__ import annotations

import pyarrow as pa

from paimon_pyds.base.arrays import pc, scalar
from paimon_pyds.base.types import AtomicType, DataField, Kind, arrow_type
from paimon_pyds.base.types.kinds import FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS
from paimon_pyds.errors import CorruptFileError

_PLAIN = {
    **dict.fromkeys(INTEGER_KINDS, r"^-?[0-9]{1,19}$"),
    **dict.fromkeys(FLOAT_KINDS, r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"),
    Kind.DATE: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    Kind.TIMESTAMP: r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{0,PRECISION})?$",
}
"""Texts that Arrow reads as Java does."""
KINDS = frozenset({*_PLAIN, *STRING_KINDS, Kind.BOOLEAN, Kind.DECIMAL})


def values_of(texts: pa.Array, field: DataField) -> pa.Array:
    """The values of a column of one of `KINDS`. Raises CorruptFileError: a text is no value."""
    type_, kind = field.type, field.type.kind
    assert isinstance(type_, AtomicType)
    if kind in STRING_KINDS:
        return texts
    if kind is Kind.BOOLEAN:
        return pc.equal(pc.utf8_lower(texts), scalar("true"))
    pattern = _PLAIN.get(kind, r"^-?[0-9]+(\.[0-9]+)?$").replace("PRECISION", str(type_.precision))
    strange = pc.filter(texts, pc.invert(pc.match_substring_regex(texts, pattern)))
    if len(strange) == strange.null_count:
        try:
            return texts.cast(arrow_type(type_))
        except pa.ArrowInvalid:
            strange = texts
    shown = next(value for value in strange.to_pylist() if value is not None)
    raise CorruptFileError(f"column {field.name}: {shown!r:.60} is no value of {type_}")
