"""MERGE on lists of rows, one at a time: what the table must hold afterwards, and the summary's figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.errors import CardinalityError

Row = dict[str, Any]
Both = Callable[[Row, Row], Any]


@dataclass(frozen=True)
class Rule:
    """A condition or a value: its SQL, and the same on a row of the table and a row of the source."""

    text: str
    value: Both


@dataclass(frozen=True)
class ModelClause:
    """kind is update, delete or insert; values of None are all columns."""

    kind: str
    where: Rule | None
    values: Mapping[str, Rule] | None

    def public(self) -> Any:
        where = None if self.where is None else self.where.text
        values = None if self.values is None else {name: rule.text for name, rule in self.values.items()}
        if self.kind == "delete":
            return pp.Delete(where)
        return pp.Update(values, where) if self.kind == "update" else pp.Insert(values, where)


def less(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a < b


def equal(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a == b


def both(*parts: Any) -> Any:
    return False if False in parts else None if None in parts else True


ON = [
    Rule("target.k = source.k", lambda t, s: equal(t["k"], s["k"])),
    Rule("s.k = t.k AND t.v < s.v", lambda t, s: both(equal(t["k"], s["k"]), less(t["v"], s["v"]))),
    Rule("t.k <=> s.k", lambda t, s: t["k"] == s["k"]),
    Rule("t.k = s.k AND t.s = s.s", lambda t, s: both(equal(t["k"], s["k"]), equal(t["s"], s["s"]))),
    Rule(
        "t.k = s.k AND t.v > 1 AND s.s = 'a'",
        lambda t, s: both(equal(t["k"], s["k"]), less(1, t["v"]), equal(s["s"], "a")),
    ),
    Rule("t.k + 1 = s.k", lambda t, s: equal(None if t["k"] is None else t["k"] + 1, s["k"])),
    Rule("t.v < s.v AND s.k > 3", lambda t, s: both(less(t["v"], s["v"]), less(3, s["k"]))),
    Rule("t.p = s.p AND t.k = s.k", lambda t, s: both(equal(t["p"], s["p"]), equal(t["k"], s["k"]))),
    Rule("t.k = s.k AND t.p = 'x'", lambda t, s: both(equal(t["k"], s["k"]), equal(t["p"], "x"))),
]  # fmt: skip
ON_PAIR = [
    Rule("s.v > t.v", lambda t, s: less(t["v"], s["v"])),
    Rule("t.v IS NULL", lambda t, s: t["v"] is None),
    Rule("s.s = 'a'", lambda t, s: equal(s["s"], "a")),
    Rule("10 / nullif(t.v, 0) > 4", lambda t, s: less(4, 10 / t["v"]) if t["v"] else None),
]
ON_SOURCE = [
    Rule("s.v > 1", lambda t, s: less(1, s["v"])),
    Rule("s IS NOT NULL AND k IS NOT NULL", lambda t, s: s["s"] is not None and s["k"] is not None),
]
ON_TARGET = [
    Rule("v > 1", lambda t, s: less(1, t["v"])),
    Rule("t.p = 'x'", lambda t, s: equal(t["p"], "x")),
    Rule("t.k = 2 OR t.s = 'b'", lambda t, s: equal(t["k"], 2) or equal(t["s"], "b")),
    Rule("length(t.s) + 0 = 1", lambda t, s: equal(None if t["s"] is None else len(t["s"]), 1)),
]
_PAIR_VALUES = {
    "v": [
        Rule("s.v + coalesce(t.v, 0)", lambda t, s: None if s["v"] is None else s["v"] + (t["v"] or 0)),
        Rule("7", lambda t, s: 7),
    ],
    "s": [
        Rule("concat(t.s, s.s)", lambda t, s: None if t["s"] is None or s["s"] is None else t["s"] + s["s"]),
        Rule("'new'", lambda t, s: "new"),
        Rule("NULL", lambda t, s: None),
    ],
    "p": [Rule("s.p", lambda t, s: s["p"]), Rule("'z'", lambda t, s: "z")],
    "k": [Rule("s.k", lambda t, s: s["k"])],
}
_TARGET_VALUES = {
    "v": [Rule("v + 1", lambda t, s: None if t["v"] is None else t["v"] + 1), Rule("0", lambda t, s: 0)],
    "s": [Rule("upper(s)", lambda t, s: None if t["s"] is None else t["s"].upper())],
    "p": [Rule("'w'", lambda t, s: "w")],
}
_SOURCE_VALUES = {
    "v": [Rule("s.v * 2", lambda t, s: None if s["v"] is None else s["v"] * 2)],
    "s": [Rule("lower(source.s)", lambda t, s: None if s["s"] is None else s["s"].lower())],
    "p": [Rule("p", lambda t, s: s["p"])],
    "k": [Rule("k", lambda t, s: s["k"])],
}


def _values(known: Mapping[str, Sequence[Rule]], required: Sequence[str] = ()) -> st.SearchStrategy[dict[str, Rule]]:
    optional = {name: st.sampled_from(rules) for name, rules in known.items() if name not in required}
    return st.fixed_dictionaries({name: st.sampled_from(known[name]) for name in required}, optional=optional).filter(
        bool
    )


def _clauses(kinds: Mapping[str, Any], conditions: Sequence[Rule]) -> st.SearchStrategy[list[ModelClause]]:
    one = st.sampled_from(sorted(kinds)).flatmap(
        lambda kind: st.builds(ModelClause, st.just(kind), st.sampled_from(conditions), kinds[kind])
    )
    last = st.sampled_from(sorted(kinds)).flatmap(
        lambda kind: st.builds(ModelClause, st.just(kind), st.none() | st.sampled_from(conditions), kinds[kind])
    )
    return st.builds(lambda some, end: [*some, *end], st.lists(one, max_size=2), st.lists(last, max_size=1))


MATCHED = _clauses({"update": st.none() | _values(_PAIR_VALUES), "delete": st.none()}, ON_PAIR)
NOT_MATCHED = _clauses({"insert": st.none() | _values(_SOURCE_VALUES, ("p",))}, ON_SOURCE)
BY_SOURCE = _clauses({"update": _values(_TARGET_VALUES), "delete": st.none()}, ON_TARGET)
ROWS = st.fixed_dictionaries(
    {
        "p": st.sampled_from(["x", "y"]),
        "k": st.none() | st.integers(0, 8),
        "v": st.none() | st.integers(0, 4),
        "s": st.none() | st.sampled_from(["a", "b", "ccc"]),
    }
)


@dataclass(frozen=True)
class Merged:
    """Rows afterwards, and how many of each kind changed."""

    rows: list[Row]
    deleted: int
    updated: int
    inserted: int


def merge(
    rows: Sequence[Row],
    source: Sequence[Row],
    on: Rule,
    matched: Sequence[ModelClause],
    not_matched: Sequence[ModelClause],
    by_source: Sequence[ModelClause],
) -> Merged:
    """Raises CardinalityError where two rows of the source would change one row of the table."""
    result: list[Row] = []
    deleted = updated = inserted = 0
    used: set[int] = set()
    for row in rows:
        partners = [n for n, other in enumerate(source) if on.value(row, other) is True]
        used.update(partners)
        candidates = [(source[n], matched) for n in partners] or [({}, by_source)]
        acting = [(c, other) for other, clauses in candidates if (c := _first(clauses, row, other)) is not None]
        if len(acting) > 1 and any(clause.kind != "delete" for clause, _ in acting):
            raise CardinalityError("two")
        if not acting:
            result.append(row)
        elif acting[0][0].kind == "delete":
            deleted += 1
        else:
            updated += 1
            result.append({**row, **_new(acting[0][0], row, acting[0][1])})
    for n, other in enumerate(source):
        clause = _first(not_matched, {}, other) if n not in used else None
        if clause is not None:
            inserted += 1
            result.append({**dict.fromkeys(other), **_new(clause, {}, other)})
    return Merged(result, deleted, updated, inserted)


def _first(clauses: Sequence[ModelClause], row: Row, other: Row) -> ModelClause | None:
    return next((c for c in clauses if c.where is None or c.where.value(row, other) is True), None)


def _new(clause: ModelClause, row: Row, other: Row) -> Row:
    if clause.values is None:
        return dict(other)
    return {name: rule.value(row, other) for name, rule in clause.values.items()}
