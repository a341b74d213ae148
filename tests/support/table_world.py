"""A table on disk and its model, changed in step by random choices: types, options, rows, evolution, overwrites.

Hypothesis gives the pools of values and a seed; the choices come from the seed, so that thousands of them cost nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.index.keys import INDEX_TYPES, supports
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from support.strategies import ATOMS, values
from support.table_changes import RowChanges
from support.table_model import (
    PER_SECOND,
    WIDER,
    Column,
    Model,
    Place,
    Row,
    convert,
    kind_of,
    precision_of,
    to_arrow,
)

ID = Column(0, "id", "BIGINT NOT NULL")
NAMES = ["c1", "c2", "c3", "C1", "é x", "a`b", "select", "d.e"]
MAP = {"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"}
ROW = {"type": "ROW", "fields": [{"id": 1, "name": "x", "type": "INT"}, {"id": 2, "name": "y", "type": "STRING"}]}
ARRAY = {"type": "ARRAY", "element": "INT"}
PARTITIONS = ["INT", "STRING", "DATE", "BOOLEAN", "BIGINT", "TINYINT", "VARCHAR(20)", "DECIMAL(4, 2)", "CHAR(4)"]
INF, NAN = float("inf"), float("nan")
EXTREMES: dict[str, list[Any]] = {
    "TINYINT": [-128, 127, 0], "SMALLINT": [-(2**15), 2**15 - 1], "INT": [-(2**31), 2**31 - 1, 0],
    "BIGINT": [-(2**63) + 1, 2**63 - 1, 0], "FLOAT": [NAN, INF, -INF, 0.0, -0.0, 1.5],
    "DOUBLE": [NAN, INF, -INF, 0.0, -0.0, 1.5, 5e-324], "STRING": ["", "a", "ab", "a%", "\U0010ffff", "\uffff", " "],
    "CHAR(4)": ["", "a", "ab", "ab ", "ab  ", "a\t", " "],
    "VARCHAR(20)": ["", " ", "a", "__HIVE_DEFAULT", "a/b=c%", "."], "BYTES": [b"", b"\xff", b"\x00"],
}  # fmt: skip
FEW: dict[str, list[Any]] = {
    "INT": [0, 1, -7],
    "STRING": ["", "a", "ab"],
    "BIGINT": [0, 1, 2, 2**40],
    "DOUBLE": [NAN, 0.5],
}
"""Values inside a MAP or a ROW."""

OWN: dict[str, list[dict[str, str]]] = {
    "bloom-filter": [{"items": "10"}, {"items": "10", "fpp": "0.5"}],
    "bitmap": [{}, {"version": "1"}, {"index-block-size": "32 b"}],
    "bsi": [{}],
    "range-bitmap": [{}, {"chunk-size": "0 b"}],
}
"""Options of indexes."""

OPTIONS: dict[str, list[str]] = {
    "target-file-row-num": ["3", "7"],
    "parquet.page.row.count.limit": ["2"],
    "parquet.block.size": ["64"],
    "parquet.enable.dictionary": ["false"],
    "metadata.stats-mode": ["none", "counts", "truncate(1)", "full"],
    "metadata.stats-dense-store": ["false"],
    "metadata.stats-keep-first-n-columns": ["2"],
    "manifest.merge-min-count": ["2"],
    "manifest.full-compaction-threshold-size": ["1 b"],
    "partition.legacy-name": ["false"],
    "data-file.path-directory": ["data"],
    "deletion-vectors.enabled": ["true"],
    "deletion-vectors.bitmap64": ["true"],
}


def _valued(type_: str) -> st.SearchStrategy[Any]:
    """Values of a type; never None."""
    if type_ == "MAP":
        numbers = st.none() | st.sampled_from(FEW["BIGINT"])
        return st.dictionaries(st.sampled_from(["k", "l", ""]), numbers, max_size=3).map(lambda d: list(d.items()))
    if type_ == "ARRAY":
        return st.lists(st.none() | st.integers(-5, 5), max_size=3)
    if type_ == "ROW":
        return st.fixed_dictionaries({f["id"]: st.none() | st.sampled_from(FEW[f["type"]]) for f in ROW["fields"]})  # type: ignore[index]
    extremes = EXTREMES.get(type_)
    if type_ == "BIGINT":  # a BSI refuses the least BIGINT, as Java does
        return st.sampled_from(EXTREMES[type_]) | st.integers(-(2**63) + 1, 2**63 - 1)
    return st.sampled_from(extremes) | values(type_) if extremes else values(type_)


class Pools(dict[str, list[Any]]):
    """Values by type. Shown without them: a failure shows its own table."""

    def __repr__(self) -> str:
        return "Pools()"


FORMATS = ("parquet", "parquet", "parquet", "orc", "avro")
"""Of data files, those more often that more tables have."""
POOLS: st.SearchStrategy[Pools] = st.fixed_dictionaries(
    {t: st.lists(_valued(t), min_size=3, max_size=5) for t in [*ATOMS, "ARRAY", "MAP", "ROW"]}
).map(Pools)
SEEDS = st.integers(0, 2**48)


class World(RowChanges):
    """One table, its model, and the choices."""

    own = OWN

    def __init__(self, pools: Pools, seed: int, path: Path, log: list[str], names: Sequence[str] = NAMES) -> None:
        self.given = pools
        self.random = random.Random(seed)
        self.log = log
        self.next_uid = 10
        self.next_id = 0
        self.pools: dict[int, list[Any]] = {}
        java_knows = names is not NAMES
        self.format = self.pick(FORMATS if java_knows else [*FORMATS, "row"])
        self.names = [n for n in names if self.format != "avro" or (n.isidentifier() and n.isascii())]
        names = self.some(self.names, 1, 5)
        columns = [ID, *(self.fresh_column(name) for name in names)]
        by = self.some([c.name for c in columns[1:] if c.type in PARTITIONS], 0, 2)
        self.model = Model(tuple(columns), tuple(by))
        self.bucket_key: list[str] = []
        options = self.table_options()
        fields = [DataField(i * 100, c.name, parse_type(numbered(c.type, i * 100))) for i, c in enumerate(columns)]
        self.log.append(f"create {[(c.name, c.type) for c in columns]} {by} {options}")
        self.table = pp.Table.create(path, fields, partition_by=by, options=options)

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.random.choice(choices)

    def some(self, choices: Sequence[Any], low: int, high: int) -> list[Any]:
        """Some of the choices, each once."""
        return self.random.sample(choices, self.random.randint(min(low, len(choices)), min(high, len(choices))))

    def maybe(self, choices: Sequence[Any]) -> Any:
        """One of them, or now and then None."""
        return None if self.random.random() < 0.2 else self.pick(choices)

    # --------------------------------------------------------------------------------------------- columns, options

    def fits(self, type_: Any) -> bool:
        """Whether the format has the type."""
        return not (self.format == "avro" and "(9)" in type_)

    def fresh_column(self, name: str) -> Column:
        type_ = self.pick([t for t in ATOMS if self.fits(t)] if self.random.random() < 0.8 else [MAP, ROW, ARRAY])
        column = Column(self.next_uid, name, type_)
        self.next_uid += 1
        pool = self.given[type_["type"] if isinstance(type_, dict) else type_]
        if self.format == "orc" and column.kind.startswith("TIMESTAMP"):  # it has no fractions just before 1970
            pool = [v for v in pool if not -PER_SECOND[precision_of(type_)] < v < 0] or [0]
        if self.format == "orc" and column.kind == "CHAR":  # it has no blanks at the end
            pool = list(dict.fromkeys(v.rstrip(" ") for v in pool))
        self.pools[column.uid] = self.some(pool, 1, 4)
        return column

    def table_options(self) -> dict[str, str]:
        options = {"file.format": self.format}
        model = self.model
        if self.random.random() < 0.4:
            can = [c for c in model.columns if c.name not in model.partition_by and isinstance(c.type, str)]
            keys = self.some(can, 1, 2)
            self.bucket_key = [c.name for c in keys]
            whole = len(keys) == 1 and keys[0].kind in ("INT", "BIGINT")
            options["bucket-key"] = ",".join(self.bucket_key)
            options["bucket"] = self.pick(["1", "3"])
            options["bucket-function.type"] = self.pick(["default", "mod"] if whole else ["default"])
        options |= {key: self.pick(OPTIONS[key]) for key in OPTIONS if self.random.random() < 0.3}
        return options | {"file.compression": self.pick(self.codecs())} | self.index_options(model.columns)

    def codecs(self) -> list[str]:
        """Compressions of the format."""
        return ["zstd", "snappy", "none", *(["gzip", "lz4"] if self.format == "parquet" else [])]

    def index_options(self, columns: Sequence[Column]) -> dict[str, str]:
        """Indexes on some of the columns."""
        options = {"file-index.in-manifest-threshold": self.pick(["1 b", "500 b", "10 mb"])}
        for kind in INDEX_TYPES:
            names = self.some([indexed(c) for c in columns if supports(kind, parse_type(value_type(c)))], 0, 3)
            if names:
                options[f"file-index.{kind}.columns"] = ",".join(names)
            for name in names:
                options |= {
                    f"file-index.{kind}.{name}.{key}": value for key, value in self.pick(self.own[kind]).items()
                }
        return options

    # -------------------------------------------------------------------------------------------------------- rows

    def rows(self, low: int, high: int, fixed: dict[int, Any] | None = None) -> list[Row]:
        found = []
        for _ in range(self.random.randint(low, high)):
            given = {c.uid: self.maybe(self.pools[c.uid]) for c in self.model.columns if c != ID}
            found.append(self.model.row({**given, ID.uid: self.next_id, **(fixed or {})}))
            self.next_id += 1
        return found

    def arrow(self, rows: Sequence[Row]) -> pa.Table:
        return to_arrow(rows, self.model.columns)

    # ------------------------------------------------------------------------------------------------------- steps

    def step(self) -> None:
        """One change of the table."""
        rows = [self.append] * 5 + [self.overwrite] * 2 + [self.delete] * 2 + [self.update, self.merge]
        self.pick([*rows, *[self.alter] * 3, self.set_options, self.compact, self.reindex])()

    def append(self) -> None:
        rows = self.rows(0, 15)
        whole = self.arrow(rows)
        cut = self.random.randint(0, len(rows))
        self.log.append(f"append {whole.to_pylist()} cut at {cut}")
        snapshot = self.table.append([whole.slice(0, cut), whole.slice(cut)])
        if not rows:
            assert snapshot is None
            return
        self.model.append(rows)
        assert snapshot is not None
        assert snapshot.delta_record_count == len(rows)
        assert self.vectors or snapshot.total_record_count == len(self.model.rows)

    def overwrite(self) -> None:
        model = self.model
        mode = self.pick(["whole", "dynamic", *(["named"] * 2 if model.partition_by else [])])
        if mode == "named":
            named = self.some(model.partition_by, 1, 2)
            spec = {c: self.maybe(self.pools[c.uid]) for c in model.columns if c.name in named}
            rows = self.rows(0, 6, {c.uid: v for c, v in spec.items()})
            partition = {c.name: v for c, v in spec.items()}
            self.log.append(f"overwrite {partition} with {self.arrow(rows).to_pylist()}")
            snapshot = self.table.overwrite(self.arrow(rows), partition=partition)
            self.overwritten(snapshot, lambda row: all(row.get(c) == v for c, v in spec.items()), rows)
            return
        rows = self.rows(0, 6)
        self.log.append(f"overwrite, {mode}, with {self.arrow(rows).to_pylist()}")
        snapshot = self.table.overwrite(self.arrow(rows), dynamic=mode == "dynamic")
        written = {model.partition(row) for row in rows}
        some = mode == "dynamic" and model.partition_by
        self.overwritten(snapshot, lambda row: not some or model.partition(row) in written, rows)

    def overwritten(self, snapshot: Snapshot | None, gone: Callable[[Row], bool], rows: Sequence[Row]) -> None:
        if snapshot is None:  # nothing to take away and nothing to add
            assert not rows
            assert not any(gone(row) for row in self.model.rows)
            return
        assert snapshot.commit_kind is CommitKind.OVERWRITE
        self.model.replace(gone, rows)
        assert self.vectors or snapshot.total_record_count == len(self.model.rows)

    def set_options(self) -> None:
        mode = self.pick(["none", "counts", "truncate(2)", "full"])
        self.table.alter({"metadata.stats-mode": mode, "target-file-row-num": self.pick(["2", "1000"])})

    # --------------------------------------------------------------------------------------------------- evolution

    def alter(self) -> None:
        """Change a column. Indexes follow a rename; for other changes they are declared anew."""
        columns = self.model.columns
        fixed = {ID.name, *self.model.partition_by, *self.bucket_key}
        free = [c for c in columns if c.name not in fixed]
        unused = [n for n in self.names if n not in {c.name for c in columns}]
        what = self.pick(["add", "drop", "rename", "widen", "move", "nest"])
        if (what == "add" and not unused) or (what != "add" and not free):
            return
        column = self.fresh_column(self.pick(unused)) if what == "add" else self.pick(free)
        found = getattr(self, f"_{what}")(column, columns, unused)
        if found is None:
            return
        columns, changes = found
        self.log.append(f"alter {changes}")
        if what in ("rename", "move"):
            self.table.alter(**changes)
        else:
            stale = [key for key in self.table.options if key.startswith("file-index.")]
            fresh = self.index_options(columns)
            self.log.append(f"indexes {fresh}")
            self.table.alter(fresh, [key for key in stale if key not in fresh], **changes)
        self.model.columns = columns

    def _add(self, new: Column, columns: Sequence[Column], _: Sequence[str]) -> Any:
        return (*columns, new), {"add_columns": {new.name: parse_type(new.type)}}

    def _drop(self, gone: Column, columns: Sequence[Column], _: Sequence[str]) -> Any:
        return tuple(c for c in columns if c != gone), {"drop_columns": [gone.name]}

    def _rename(self, old: Column, columns: Sequence[Column], unused: Sequence[str]) -> Any:
        if not unused:
            return None
        new = self.pick(unused)
        return tuple(replace(c, name=new) if c == old else c for c in columns), {"rename_columns": {old.name: new}}

    def _widen(self, old: Column, columns: Sequence[Column], _: Sequence[str]) -> Any:
        wider = [t for t in WIDER.get(old.type, []) if self.fits(t)] if isinstance(old.type, str) else []
        if not wider:
            return None
        type_ = self.pick(wider)
        self.pools[old.uid] = [convert(v, old.type, type_) for v in self.pools[old.uid]]
        return tuple(replace(c, type=type_) if c == old else c for c in columns), {"change_types": {old.name: type_}}

    def _move(self, moved: Column, columns: Sequence[Column], _: Sequence[str]) -> Any:
        rest = [c for c in columns if c != moved]
        at = self.random.randint(0, len(rest))
        where = "first" if at == 0 else f"after {rest[at - 1].name}"
        return (*rest[:at], moved, *rest[at:]), {"move_columns": {moved.name: where}}

    def _nest(self, row: Column, columns: Sequence[Column], _: Sequence[str]) -> Any:
        """A field of a ROW is added, dropped, renamed or widened."""
        if row.kind != "ROW":
            return None
        fields = row.type["fields"]
        field = self.pick(fields)
        unused = [n for n in ("x", "y", "z", "w") if n not in {f["name"] for f in fields}]
        name = f"{row.name}.{field['name']}"
        changes: dict[str, Any]
        match self.pick(["add", "drop", "rename", "widen"]):
            case "drop" if len(fields) > 1:
                fields, changes = [f for f in fields if f != field], {"drop_columns": [name]}
            case "rename" if unused:
                fields = [f | {"name": unused[0]} if f == field else f for f in fields]
                changes = {"rename_columns": {name: unused[0]}}
            case "widen" if field["type"] == "INT":
                fields = [f | {"type": "BIGINT"} if f == field else f for f in fields]
                changes = {"change_types": {name: "BIGINT"}}
            case "add" if unused:
                self.next_uid += 1
                new = {"id": self.next_uid, "name": unused[0], "type": self.pick(["INT", "STRING", "DOUBLE"])}
                fields, changes = (
                    [*fields, new],
                    {"add_columns": {f"{row.name}.{new['name']}": parse_type(new["type"])}},
                )
                self.pools[row.uid] = [v | {new["id"]: self.pick(FEW[new["type"]])} for v in self.pools[row.uid]]
            case _:
                return None
        return tuple(replace(c, type=row.type | {"fields": fields}) if c == row else c for c in columns), changes

    # ----------------------------------------------------------------------------------------------------- filters

    def places(self) -> list[Place]:
        found = []
        for column in self.model.columns:
            if column.kind == "MAP":
                found += [Place(column, "BIGINT", key=key) for key in ("k", "l")]
            elif column.kind == "ROW":
                found += [Place(column, f["type"], field_id=f["id"]) for f in column.type["fields"]]
            found.append(Place(column, column.type))
        return found

    def value(self, place: Place, micros: bool) -> Any:
        """A literal: mostly a value that rows have."""
        plain = place.type.removesuffix(" NOT NULL")
        if place.key is not None or place.field_id is not None:
            pool = FEW[plain]
        elif place.column == ID:
            pool = [-1, *range(self.next_id + 1)]
        else:
            pool = self.pools[place.column.uid]
            if self.random.random() < 0.2:
                pool = self.given.get(plain, pool)
        value = None if self.random.random() < 0.05 else self.pick(pool)
        return value - value % 1000 if micros and value is not None and "(9)" in plain else value

    def condition(self, depth: int, micros: bool) -> Any:
        """A random condition; with ``micros`` its literals are such as SQL texts can have."""
        op = self.pick(["leaf", "leaf", *(["and", "or", "not"] if depth > 0 else [])])
        if op in ("and", "or"):
            return (op, [self.condition(depth - 1, micros) for _ in range(self.random.randint(2, 3))])
        if op == "not":
            return ("not", self.condition(depth - 1, micros))
        place = self.pick(self.places())
        if isinstance(place.type, dict):
            return (self.pick(["is null", "is not null"]), place)
        ops = ["=", "=", "<>", "<", "<=", ">", ">=", "in", "in", "not in", "is null", "is not null"]
        if kind_of(place.type) in ("CHAR", "VARCHAR", "STRING"):
            ops += ["like", "not like", "startswith", "endswith", "contains"]
        op = self.pick(ops)
        if op.startswith("is "):
            return (op, place)
        if op in ("in", "not in"):
            return (op, place, [self.value(place, micros) for _ in range(self.random.randint(1, 4))])
        value = self.value(place, micros)
        if value is not None and op in ("like", "not like"):
            value = self.pattern(value)
        return (op, place, value)

    def pattern(self, text: str) -> str:
        whole = ["\\" + c if c in "\\%_" else c for c in text]
        cut = self.random.randint(0, len(whole))
        left, right = "".join(whole[:cut]), "".join(whole[cut:])
        return str(self.pick([left + right, f"{left}%", f"%{right}", f"{left}%{right}", f"%{left}_%", "%", "_%"]))


def value_type(column: Column) -> Any:
    """The type that an index on the column is about."""
    return column.type["value"] if column.kind == "MAP" else column.type


def indexed(column: Column) -> str:
    """The column as an index option names it."""
    return f"{column.name}[k]" if column.kind == "MAP" else column.name


def numbered(type_: Any, base: int) -> Any:
    """Field ids inside ROWs that no other column has."""
    if not isinstance(type_, dict) or "fields" not in type_:
        return type_
    return type_ | {"fields": [f | {"id": base + f["id"]} for f in type_["fields"]]}
