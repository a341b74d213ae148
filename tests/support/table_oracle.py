"""Conditions of the model as the oracle's JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from paimon_pyds.base.types import arrow_type, parse_type
from support.table_model import Place
from support.values import json_values

_OPS = {
    "=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "in": "in", "not in": "notin",
    "is null": "isnull", "is not null": "isnotnull", "like": "like", "startswith": "startswith",
    "endswith": "endswith", "contains": "contains",
}  # fmt: skip
_OPPOSITE = {"=": "<>", "<": ">=", "<=": ">", "in": "not in", "is null": "is not null"}
_OPPOSITE |= {b: a for a, b in list(_OPPOSITE.items())}


def to_oracle(condition: Any) -> dict[str, Any] | None:
    """The condition as the oracle's JSON; None when it has no form for it: parts of a MAP or a ROW, NOT LIKE."""
    op, *args = condition
    if op in ("and", "or"):
        parts = [to_oracle(c) for c in args[0]]
        return None if None in parts else {"op": op, "args": parts}
    if op == "not":
        inner = _negated(args[0])
        return None if inner is None else to_oracle(inner)
    place: Place = args[0]
    if op not in _OPS or place.key is not None or place.field_id is not None:
        return None
    given = [] if len(args) == 1 else args[1] if op in ("in", "not in") else [args[1]]
    return {"op": _OPS[op], "field": place.column.name, "literals": to_json(given, place.type)}


def to_json(given: Sequence[Any], type_: Any) -> list[Any]:
    """Values as the oracle's JSON."""
    return json_values(pa.array(given, arrow_type(parse_type(type_)))) if given else []


def _negated(condition: Any) -> Any:
    """NOT of a condition, pushed into its leaves; None when a leaf has no opposite."""
    op, *args = condition
    if op == "not":
        return args[0]
    if op in ("and", "or"):
        parts = [_negated(c) for c in args[0]]
        return None if None in parts else ("or" if op == "and" else "and", parts)
    return (_OPPOSITE[op], *args) if op in _OPPOSITE else None
