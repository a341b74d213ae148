"""Where answers of Java Paimon 1.4 differ from ours by rule: predicates in the oracle's JSON, types by column name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import paimon_pyds as pp
from paimon_pyds.base.types import DataType, Kind
from paimon_pyds.base.types.kinds import BINARY_KINDS
from paimon_pyds.engine.scan.travel import Additions
from paimon_pyds.errors import PaimonError

Json = Mapping[str, Any]
Types = Mapping[str, DataType]
_RANGES = ("lt", "gt", "le", "ge", "between")
_COMPARISONS = ("eq", "ne", "in", "notin", *_RANGES)


def leaves(json: Json) -> Iterator[Json]:
    """Every comparison."""
    if "args" in json:
        for child in json["args"]:
            yield from leaves(child)
    else:
        yield json


def _any_leaf(json: Json, holds: Callable[[Json], bool]) -> bool:
    return any(holds(leaf) for leaf in leaves(json))


def tells_zeros_apart(json: Json, types: Types) -> bool:
    """Comparisons of floats with a zero: -0.0 = 0.0 here as in Spark SQL, where Java tells them apart."""
    return _any_leaf(
        json,
        lambda leaf: (
            types[leaf["field"]].kind in (Kind.FLOAT, Kind.DOUBLE)
            and any(v is not None and float(v) == 0 for v in leaf.get("literals", ()))
        ),
    )


def is_coarse(json: Json, types: Types) -> bool:
    """Timestamps finer than their keys: Java compares truncated values and loses rows, except for = and IN."""

    def holds(leaf: Json) -> bool:
        type_ = types[leaf["field"]]
        fine = type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ) and (getattr(type_, "precision", 0) or 0) > 6
        return fine and leaf["op"] in ("ne", "notin", *_RANGES)

    return _any_leaf(json, holds)


def is_java_bug(json: Json, java: Any, row_count: int) -> bool:
    """IS NULL by the range bitmap of an all-null column: Java 1.4 answers the first and the last row only."""
    return json["op"] == "isnull" and java == sorted({0, row_count - 1})


def orders_bytes(json: Json, types: Types) -> bool:
    """Ranges of BINARY and BYTES: Java's rows are others even where it reads its own table without pushdown."""
    return _any_leaf(json, lambda leaf: leaf["op"] in _RANGES and types[leaf["field"]].kind in BINARY_KINDS)


def compares_char(json: Json, types: Types) -> bool:
    """Comparisons of CHAR: Java's predicates know nothing of the blanks at the end, which its Spark connector adds."""
    return _any_leaf(json, lambda leaf: leaf["op"] in _COMPARISONS and types[leaf["field"]].kind is Kind.CHAR)


def asks_for_nulls(json: Json) -> bool:
    """IS NULL anywhere, which a range bitmap of nothing but nulls answers wrongly."""
    return _any_leaf(json, lambda leaf: leaf["op"] == "isnull")


def has_null_literal(json: Json) -> bool:
    """Comparisons with NULL, on which Java's evaluators raise; no engine gives it such."""
    return _any_leaf(json, lambda leaf: None in leaf["literals"])


def escapes_in_like(json: Json) -> bool:
    """A LIKE pattern with backslashes: Java takes ``%a`` and the like apart with the backslashes left in."""
    return _any_leaf(json, lambda leaf: leaf["op"] == "like" and "\\" in leaf["literals"][0])


def shows_level_0(table: pp.Table, options: Mapping[str, str]) -> dict[str, str]:
    """Options with which Java gives all that snapshots added: 1.4 leaves out what they added on level 0, nearly all,
    where batch reads of a state hide that level. 2.1 does not."""
    with suppress(PaimonError):
        if isinstance(table.scan(options=options).between, Additions):
            return {**options, "batch-scan-mode": "compact"}
    return dict(options)
