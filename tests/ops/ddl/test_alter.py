from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, RowType, parse_type, walk_fields
from paimon_pyds.errors import (
    ArgumentTypeError,
    CommitError,
    OptionError,
    SchemaError,
    UnknownColumnError,
    UnsupportedError,
)
from paimon_pyds.metadata.evolution.casting import can_cast
from paimon_pyds.metadata.schema import TableSchema, parse_schema
from paimon_pyds.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.alter import alter_table
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from paimon_pyds.ops.ddl.schema_columns import evolve_type, may_cast
from paimon_pyds.storage.local import LocalFileIO
from support.fixtures import meta, requires_shared, table_path
from support.oracle import Oracle, requires_java_oracle

ROW = {"type": "ROW", "fields": [{"id": 20, "name": "x", "type": "INT"}, {"id": 21, "name": "y", "type": "STRING"}]}
COLUMNS = {
    "id": "INT NOT NULL", "a": "INT", "b": "STRING", "r": ROW, "l": {"type": "ARRAY", "element": ROW},
    "m": {"type": "MAP", "key": "STRING NOT NULL", "value": ROW}, "d.ot": "INT", "p": "STRING",
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    fields = [DataField(0, name, parse_type(type_)) for name, type_ in COLUMNS.items()]
    return create_table(
        LocalFileIO(), str(tmp_path / "t"), TableDefinition(fields, (), ["p"], {"bucket": "2", "bucket-key": "id"})
    )


def _write(store: TableStore) -> None:
    snapshot = Snapshot(
        id=1, schema_id=0, base_manifest_list="b", delta_manifest_list="d", commit_user="u", time_millis=1,
        commit_identifier=BATCH_COMMIT_IDENTIFIER, commit_kind=CommitKind.APPEND,
    )  # fmt: skip
    assert store.try_create_snapshot(snapshot)


# ------------------------------------------------------------------------------------------------- as Java does it


def _change(args: list[dict[str, Any]]) -> dict[str, Any]:
    """One ALTER of a fixture as arguments of alter_table."""
    changes: dict[str, Any] = {
        "add_columns": {}, "rename_columns": {}, "change_types": {}, "drop_columns": [], "move_columns": {},
        "change_nullability": {}, "unset_options": [], "set_options": {}, "column_defaults": {},
        "column_comments": {},
    }  # fmt: skip
    for op in args:
        name = op.get("name")
        name = ".".join(name) if isinstance(name, list) else name
        match op["op"]:
            case "add":
                changes["add_columns"][name] = op["type"]
                if "after" in op:
                    changes["move_columns"][name] = f"after {op['after']}"
            case "rename":
                changes["rename_columns"][name] = op["to"]
            case "type":
                changes["change_types"][name] = op["type"]
            case "drop":
                changes["drop_columns"].append(name)
            case "move":
                changes["move_columns"][name] = "first"
            case "nullable":
                changes["change_nullability"][name] = op["value"]
            case "reset":
                changes["unset_options"].append(op["key"])
            case "set":
                changes["set_options"][op["key"]] = op["value"]
            case "default":
                changes["column_defaults"][name] = op["value"]
            case "comment":
                changes["column_comments"][name] = op["value"]
            case other:
                raise AssertionError(other)
    return changes


@requires_shared
@pytest.mark.parametrize("name", ["evolve_append", "evolve_index", "evolve_pk", "append_default_values"])
def test_the_schemas_of_java_come_out(name: str, tmp_path: Path) -> None:
    theirs = TableStore.open(table_path(name))
    first = theirs.schema(0)
    ours = create_table(
        LocalFileIO(),
        str(tmp_path / "t"),
        TableDefinition(first.fields, first.primary_keys, first.partition_keys, first.options),
    )
    alters = [step["args"][0] for step in meta(name)["steps"] if step["op"] == "alter"]
    assert len(alters) == len(theirs.schema_ids()) - 1 > 0
    for number, alter in enumerate(alters, start=1):
        schema = alter_table(ours, **_change(alter))
        assert replace(schema, time_millis=0) == replace(theirs.schema(number), time_millis=0)
    assert ours.schema_ids() == theirs.schema_ids()


# ------------------------------------------------------------------------------------------------------- columns


def test_columns_come_and_go_but_ids_are_for_ever(store: TableStore) -> None:
    first = store.latest_schema()
    dropped = alter_table(store, drop_columns=["b"])
    assert "b" not in dropped.field_names and dropped.highest_field_id == first.highest_field_id
    again = alter_table(store, add_columns={"b": "STRING"})
    assert again.field("b").id == first.highest_field_id + 1 == again.highest_field_id
    swapped = alter_table(store, drop_columns=["b"], add_columns={"b": "INT"})
    assert swapped.field("b").id == again.field("b").id + 1
    assert [s.id for s in store.schemas()] == [0, 1, 2, 3]
    assert store.latest_schema() == swapped


def test_ids_of_a_damaged_counter_are_not_used_again(tmp_path: Path) -> None:
    fields = (DataField(0, "a", parse_type("INT")), DataField(9, "b", parse_type("INT")))
    store = TableStore(LocalFileIO(), str(tmp_path / "t"))
    assert store.try_create_schema(TableSchema(0, fields, 1))
    assert alter_table(store, add_columns={"c": "INT"}).field("c").id == 10


@pytest.mark.parametrize(
    "columns",
    [
        "n BIGINT, s ROW<x INT, y STRING>",
        {"n": "BIGINT", "s": ROW},
        {"n": pa.int64(), "s": pa.struct([("x", pa.int32()), ("y", pa.string())])},
        {"n": parse_type("BIGINT"), "s": parse_type(ROW)},
        pa.schema([("n", pa.int64()), ("s", pa.struct([("x", pa.int32()), ("y", pa.string())]))]),
        [DataField(0, "n", parse_type("BIGINT")), pa.field("s", pa.struct([("x", pa.int32()), ("y", pa.string())]))],
    ],
)
def test_new_columns_in_every_form(store: TableStore, columns: Any) -> None:
    highest = store.latest_schema().highest_field_id
    schema = alter_table(store, add_columns=columns)
    assert schema.field_names[-2:] == ("n", "s") and schema.field("n").type == parse_type("BIGINT")
    row = schema.field("s").type
    assert isinstance(row, RowType)
    assert [f.id for f in walk_fields(schema.fields[-2:])] == [highest + 1, highest + 2, highest + 3, highest + 4]
    assert [str(f.type) for f in row.fields] == ["INT", "STRING"]


def test_nested_fields(store: TableStore) -> None:
    first = store.latest_schema()
    schema = alter_table(
        store,
        add_columns={"r.z": "INT", "l.element.z": "INT", "m.value.z": "INT", "new.dot": "INT"},
        rename_columns={"r.y": "yy", "d.ot": "dot"},
        drop_columns=["l.element.x"],
        change_types={"m.value.x": "BIGINT"},
        column_comments={"r.x": "inside"},
    )
    names = [f.name for f in walk_fields(schema.fields)]
    assert names == ["id", "a", "b", "r", "x", "yy", "z", "l", "y", "z", "m", "x", "y", "z", "dot", "p", "new.dot"]
    before = {f.id: f for f in walk_fields(first.fields)}
    after = {f.id: f for f in walk_fields(schema.fields)}
    assert len(set(before) - set(after)) == 1 and len(set(after) - set(before)) == 4
    assert min(set(after) - set(before)) == first.highest_field_id + 1
    assert [f.description for f in walk_fields(schema.fields) if f.description] == ["inside"]


def test_a_row_is_changed_field_by_field(store: TableStore) -> None:
    old = store.latest_schema().field("r").type
    assert isinstance(old, RowType)
    wanted = pa.struct([("new", pa.string()), ("x", pa.int64())])
    new = alter_table(store, change_types={"r": wanted}).field("r").type
    assert isinstance(new, RowType) and [f.name for f in new.fields] == ["new", "x"]
    assert new.fields[1].id == old.fields[0].id and str(new.fields[1].type) == "BIGINT"
    assert new.fields[0].id > max(f.id for f in walk_fields(store.schema(0).fields))
    with pytest.raises(SchemaError, match="order of fields"):
        alter_table(store, change_types={"r": pa.struct([("x", pa.int64()), ("new", pa.string())])})
    with pytest.raises(SchemaError, match="key of a MAP"):
        alter_table(store, change_types={"m": pa.map_(pa.int32(), wanted)})
    with pytest.raises(SchemaError, match='5 is no type — write a text such as "INT"'):
        alter_table(store, change_types={"r": 5})
    with pytest.raises(SchemaError, match="NOT NULL"):
        alter_table(store, change_types={"r": pa.struct([("x", pa.int64()), pa.field("q", pa.int8(), False)])})


def test_places(store: TableStore) -> None:
    schema = alter_table(store, move_columns={"b": "first", "id": "last", "r": "after b", "a": "before p"})
    assert schema.field_names == ("b", "r", "l", "m", "d.ot", "a", "p", "id")
    alter_table(store, set_options={"add-column-before-partition": "true"})
    assert alter_table(store, add_columns={"n": "INT"}).field_names[5:8] == ("a", "n", "p")


def test_nullability(store: TableStore) -> None:
    assert alter_table(store, change_nullability={"id": True}).field("id").type.nullable
    with pytest.raises(SchemaError, match=r"cannot become NOT NULL.*alter-column-null-to-not-null\.disabled=false"):
        alter_table(store, change_nullability={"a": False})
    alter_table(store, set_options={"alter-column-null-to-not-null.disabled": "false"})
    assert not alter_table(store, change_nullability={"a": False}).field("a").type.nullable
    assert not alter_table(store, change_types={"a": "BIGINT"}).field("a").type.nullable


def test_comments_and_defaults(store: TableStore) -> None:
    schema = alter_table(store, column_comments={"a": "A"}, column_defaults={"a": "5"}, comment="table")
    assert (schema.field("a").description, schema.field("a").default, schema.comment) == ("A", "5", "table")
    assert alter_table(store, change_types={"b": "STRING"}) == schema
    cleared = alter_table(store, column_comments={"a": None}, column_defaults={"a": None}, comment=None)
    assert (cleared.field("a").description, cleared.field("a").default, cleared.comment) == (None, None, None)
    with pytest.raises(SchemaError, match="no default for INT"):
        alter_table(store, column_defaults={"a": "five"})


def test_nothing_to_change_makes_no_schema(store: TableStore) -> None:
    first = store.latest_schema()
    assert alter_table(store) == first
    assert alter_table(store, {"bucket": "2"}, ["not.set"], change_types={"a": "INT"}, comment=None) == first
    assert store.schema_ids() == [0]


REFUSED: list[tuple[str, dict[str, Any]]] = [
    (r"no column 'bb'.*did you mean b", {"drop_columns": ["bb"]}),
    ("no column 'r.q'", {"drop_columns": ["r.q"]}),
    ("no column 'r.q.z'", {"drop_columns": ["r.q.z"]}),
    ("no column 'a.b'", {"change_types": {"a.b": "INT"}}),
    ("no column 'r.q'", {"column_comments": {"r.q": "x"}}),
    ("no column 'r.q'", {"rename_columns": {"r.q": "x"}}),
    ("no column 'q'", {"move_columns": {"q": "first"}}),
    ("no column 'q'", {"move_columns": {"a": "after q"}}),
    ("not a position", {"move_columns": {"a": "somewhere"}}),
    ("partition column p can't be dropped", {"drop_columns": ["p"]}),
    ("partition column p can't be renamed", {"rename_columns": {"p": "q"}}),
    ("partition column p can't be changed in type", {"change_types": {"p": "INT"}}),
    ("bucket-key column id can't be dropped", {"drop_columns": ["id"]}),
    ("bucket-key column id can't be changed in type", {"change_types": {"id": "BIGINT"}}),
    ("column b already exists", {"rename_columns": {"a": "b"}}),
    ("column a already exists", {"add_columns": {"a": "INT"}}),
    ("column x already exists", {"add_columns": {"r.x": "INT"}}),
    ("cannot be added as NOT NULL", {"add_columns": {"n": "INT NOT NULL"}}),
    ("reserved", {"add_columns": {"_ROW_ID": "BIGINT"}}),
    ("not a Paimon type", {"add_columns": {"n": "NUMBER"}}),
    ("3 is not a column", {"add_columns": [3]}),
    ("cannot be converted to INT", {"change_types": {"r": "INT"}}),
    ("cannot be converted to ARRAY<INT>", {"change_types": {"a": pa.list_(pa.int32())}}),
    ("cannot be converted to DATE", {"change_types": {"a": "DATE"}}),
    ("needs at least one field", {"drop_columns": ["r.x", "r.y"]}),
    ("no column 'q'", {"drop_columns": "a, q"}),
    ("the default of 'a' has half of a surrogate pair", {"column_defaults": {"a": "\ud800"}}),
    ("the comment of 'a' has half of a surrogate pair", {"column_comments": {"a": "\ud800"}}),
]


@pytest.mark.parametrize(("message", "changes"), REFUSED)
def test_what_paimon_does_not_allow(store: TableStore, message: str, changes: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match=message):
        alter_table(store, **changes)
    assert store.schema_ids() == [0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"comment": 5}, "comment takes a text, not 5"),
        ({"comment": {}}, "comment takes a text"),
        ({"column_comments": {"a": 5}}, r"column_comments of 'a' takes a text, not 5 \(int\)"),
        ({"column_comments": {5: "a"}}, "column_comments: each takes a text, not 5"),
        ({"add_columns": 5}, "add_columns takes a list, not 5"),
        ({"column_comments": ["a"]}, "column_comments takes a dictionary"),
        ({"column_defaults": {"a": 5}}, "column_defaults of 'a' takes a text, not 5"),
        ({"rename_columns": {"a": 5}}, "rename_columns of 'a' takes a text, not 5"),
        ({"rename_columns": {"a": None}}, "rename_columns of 'a' takes a text, not None"),
        ({"move_columns": {"a": 5}}, "move_columns of 'a' takes a text, not 5"),
        ({"change_types": {5: "INT"}}, "change_types: each takes a text, not 5"),
        ({"change_nullability": {"a": "no"}}, "change_nullability of 'a' takes True or False, not 'no'"),
    ],
)
def test_wrong_types_never_reach_a_schema(store: TableStore, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentTypeError, match=message):
        alter_table(store, **changes)
    assert store.schema_ids() == [0]
    assert pp.Table.open(store.root).count() == 0


def test_the_last_column_stays(tmp_path: Path) -> None:
    store = create_table(LocalFileIO(), str(tmp_path / "t"), TableDefinition([DataField(0, "a", parse_type("INT"))]))
    with pytest.raises(SchemaError, match="at least one column"):
        alter_table(store, drop_columns=["a"])
    assert alter_table(store, drop_columns=["a"], add_columns={"b": "INT"}).field_names == ("b",)


def test_primary_keys_are_protected(tmp_path: Path) -> None:
    fields = [DataField(0, "k", parse_type("INT")), DataField(1, "v", parse_type("INT"))]
    store = create_table(LocalFileIO(), str(tmp_path / "t"), TableDefinition(fields, ["k"], (), {"bucket": "1"}))
    for changes in ({"drop_columns": ["k"]}, {"change_types": {"k": "BIGINT"}}, {"change_nullability": {"k": True}}):
        with pytest.raises(SchemaError, match="primary key column k"):
            alter_table(store, **changes)
    assert alter_table(store, rename_columns={"k": "key"}).primary_keys == ("key",)


def test_refused_types_cannot_be_added(store: TableStore) -> None:
    with pytest.raises(UnsupportedError, match="BLOB"):
        alter_table(store, add_columns={"v": "BLOB"})


def test_variant_is_cast_to_no_other_type(store: TableStore) -> None:
    alter_table(store, add_columns={"v": "VARIANT"})
    for type_ in ("STRING", "INT", "BYTES"):
        with pytest.raises(SchemaError, match="VARIANT"):
            alter_table(store, change_types={"v": type_})


# ------------------------------------------------------------------------------------------------------- options


def test_options_are_set_and_unset(store: TableStore) -> None:
    schema = alter_table(store, {"target-file-size": "1 mb", "write-only": True}, ["bucket", "bucket-key"])
    assert schema.options == {"target-file-size": "1 mb", "write-only": "true"}
    with pytest.raises(OptionError, match="unknown option target-file-sice"):
        alter_table(store, {"target-file-sice": "1 mb"})
    with pytest.raises(OptionError, match="target-file-size must be a size"):
        alter_table(store, {"target-file-size": "big"})
    with pytest.raises(UnsupportedError, match="chain-table"):
        alter_table(store, {"chain-table.enabled": "true"})


FIXED: list[tuple[str, Mapping[str, str], tuple[str, ...]]] = [
    ("option bucket-key can't be changed", {"bucket-key": "a"}, ()),
    ("option row-tracking.enabled can't be changed", {"row-tracking.enabled": "true"}, ()),
    ("option data-file.path-directory can't be changed", {"data-file.path-directory": "d"}, ()),
    ("bucket can't be changed from 2 to -1", {"bucket": "-1"}, ()),
    ("option bucket can't be reset", {}, ("bucket",)),
    ("option bucket-key can't be reset", {}, ("bucket-key",)),
    ("deletion-vectors.enabled can't be changed from false to true", {"deletion-vectors.enabled": "true"}, ()),
]


@pytest.mark.parametrize(("message", "options", "unset"), FIXED)
def test_some_options_are_fixed_once_there_is_data(
    store: TableStore, message: str, options: Mapping[str, str], unset: tuple[str, ...]
) -> None:
    _write(store)
    with pytest.raises(OptionError, match=message):
        alter_table(store, options, unset)
    assert store.schema_ids() == [0]


def test_what_may_change_with_data(store: TableStore) -> None:
    _write(store)
    assert alter_table(store, {"bucket": "8"}).options["bucket"] == "8"
    changed = alter_table(store, {"deletion-vectors.modifiable": "true", "deletion-vectors.enabled": "true"})
    assert changed.options["deletion-vectors.enabled"] == "true"
    assert alter_table(store, {"partition": "p"}).id == changed.id


@pytest.mark.parametrize("key", ["type", "path", "primary-key", "partition"])
def test_some_options_never_change(store: TableStore, key: str) -> None:
    with pytest.raises(OptionError, match="can't be changed"):
        alter_table(store, {key: "a"})


def test_none_is_no_value_of_an_option(store: TableStore) -> None:
    with pytest.raises(OptionError, match=r"target-file-size is set to None.*unset_options"):
        alter_table(store, {"target-file-size": None})


def test_an_unknown_change_is_refused(store: TableStore) -> None:
    with pytest.raises(TypeError, match="can't be altered by add_colums, but by add_columns, drop_columns"):
        alter_table(store, add_colums={"x": "INT"})  # type: ignore[call-arg]
    assert store.schema_ids() == [0]


def test_options_follow_renamed_columns(tmp_path: Path) -> None:
    options = {
        "bucket": "2", "bucket-key": "k,v", "file-index.bitmap.columns": "v, m[a]", "file-index.bitmap.v.version": "1",
        "file-index.bitmap.m[a].version": "1", "fields.v.stats-mode": "full", "sink.clustering.by-columns": "v",
    }  # fmt: skip
    types = {"k": "INT", "v": "INT", "m": {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}}
    fields = [DataField(0, name, parse_type(type_)) for name, type_ in types.items()]
    store = create_table(LocalFileIO(), str(tmp_path / "t"), TableDefinition(fields, options=options))
    assert alter_table(store, rename_columns={"v": "w", "m": "n"}).options == {
        "bucket": "2", "bucket-key": "k,w", "file-index.bitmap.columns": "w,n[a]", "file-index.bitmap.w.version": "1",
        "file-index.bitmap.n[a].version": "1", "fields.w.stats-mode": "full", "sink.clustering.by-columns": "w",
    }  # fmt: skip
    with pytest.raises(UnknownColumnError, match="no column n"):
        alter_table(store, drop_columns=["n"])
    alter_table(store, {"file-index.bitmap.columns": "w"}, ["file-index.bitmap.n[a].version"], drop_columns=["n"])


def test_options_of_merges_follow_renamed_columns(tmp_path: Path) -> None:
    """A nested key names fields of the rows in a list: those are renamed apart from columns of the same name."""
    row = {"type": "ROW", "fields": [{"id": 9, "name": name, "type": "STRING"} for name in ("k", "s", "t")]}
    types = {
        "k": "INT NOT NULL", "s": "INT", "v": "INT", "f": {"type": "ARRAY", "element": row},
        "m": {"type": "MAP", "key": "INT NOT NULL", "value": row},
    }  # fmt: skip
    options = {
        "bucket": "1", "merge-engine": "partial-update", "fields.s.sequence-group": "v,f,m",
        "partial-update.remove-record-on-sequence-group": "s", "changelog-producer": "lookup",
        "changelog-producer.row-deduplicate-ignore-fields": "v,s", "fields.f.aggregate-function": "nested_update",
        "fields.f.nested-key": "k,s", "fields.m.aggregate-function": "merge_map_with_keytime", "fields.m.ts-field": "t",
    }  # fmt: skip
    fields = [DataField(i, name, parse_type(type_)) for i, (name, type_) in enumerate(types.items())]
    definition = TableDefinition(fields, ["k"], options=options)
    store = create_table(LocalFileIO(), str(tmp_path / "t"), definition)
    assert alter_table(store, rename_columns={"k": "key", "s": "seq"}).options == {
        **{key: value for key, value in options.items() if key != "fields.s.sequence-group"},
        "fields.seq.sequence-group": "v,f,m", "partial-update.remove-record-on-sequence-group": "seq",
        "changelog-producer.row-deduplicate-ignore-fields": "v,seq",
    }  # fmt: skip
    renamed = alter_table(store, rename_columns={"f.element.s": "own", "m.value.t": "time"}).options
    assert (renamed["fields.f.nested-key"], renamed["fields.m.ts-field"]) == ("k,own", "time")
    both = alter_table(store, rename_columns={"f.element.k": "id", "f": "list"}).options
    assert both["fields.list.nested-key"] == "id,own"


# --------------------------------------------------------------------------------------------------------- races


def test_everybody_gets_their_column(store: TableStore) -> None:
    def add(n: int) -> TableSchema:
        return alter_table(TableStore(store.io, store.root), add_columns={f"n{n}": "INT"})

    with ThreadPoolExecutor(8) as pool:
        schemas = list(pool.map(add, range(24)))
    latest = store.latest_schema()
    assert sorted(s.id for s in schemas) == list(range(1, 25)) and latest.id == 24
    assert {f"n{n}" for n in range(24)} <= set(latest.field_names)
    ids = [f.id for f in walk_fields(latest.fields)]
    assert len(set(ids)) == len(ids) and max(ids) == latest.highest_field_id


def test_losing_every_race_ends(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "try_create_schema", lambda schema: False)
    with pytest.raises(CommitError, match="gave up after 101 attempts"):
        alter_table(store, add_columns={"n": "INT"})


def test_a_branch_has_schemas_of_its_own(store: TableStore) -> None:
    branch = TableStore(store.io, store.root, "b")
    assert branch.try_create_schema(store.latest_schema())
    alter_table(branch, add_columns={"n": "INT"})
    assert branch.schema_ids() == [0, 1] and store.schema_ids() == [0]
    assert os.path.exists(f"{store.root}/branch/branch-b/schema/schema-1")


# --------------------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("source", "target", "widening", "explicit"),
    [
        ("INT", "BIGINT", True, True), ("BIGINT", "INT", False, True), ("TINYINT", "SMALLINT", True, True),
        ("INT", "DOUBLE", True, True), ("DOUBLE", "FLOAT", False, True), ("FLOAT", "INT", False, True),
        ("DECIMAL(8, 2)", "DECIMAL(12, 2)", True, True), ("INT", "DECIMAL(12, 2)", True, True),
        ("CHAR(3)", "STRING", True, True), ("STRING", "CHAR(3)", False, True), ("VARCHAR(3)", "VARCHAR(9)", True, True),
        ("STRING", "INT", False, True), ("INT", "STRING", False, True), ("DATE", "STRING", False, True),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", True, True), ("TIMESTAMP(6)", "DATE", True, True),
        ("DATE", "TIMESTAMP(3)", False, True), ("BOOLEAN", "INT", False, True), ("INT", "BOOLEAN", False, True),
        ("BINARY(4)", "BYTES", True, True), ("BYTES", "BINARY(4)", False, True), ("INT", "DATE", False, False),
        ("DATE", "INT", False, False), ("BOOLEAN", "DATE", False, False), ("INT NOT NULL", "BIGINT", True, True),
    ],
)  # fmt: skip
def test_casts(source: str, target: str, widening: bool, explicit: bool) -> None:
    a, b = parse_type(source), parse_type(target)
    assert (may_cast(a, b, explicit=False), may_cast(a, b)) == (widening, explicit)
    if explicit:
        assert evolve_type("c", a, b, count()) == b.with_nullable(a.nullable)


ATOMS = st.sampled_from(
    ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(20, 4)",
     "CHAR(3)", "VARCHAR(5)", "STRING", "BINARY(2)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(9)",
     "TIMESTAMP(6) WITH LOCAL TIME ZONE"]
)  # fmt: skip


@given(ATOMS, ATOMS)
def test_every_change_that_is_allowed_can_be_read(source: str, target: str) -> None:
    a, b = parse_type(source), parse_type(target)
    assert not may_cast(a, b) or a == b or can_cast(a, b)
    assert not may_cast(a, b, explicit=False) or may_cast(a, b)


def test_widening_only(store: TableStore) -> None:
    alter_table(store, {"disable-explicit-type-casting": "true"})
    with pytest.raises(SchemaError, match="allows widening only"):
        alter_table(store, change_types={"b": "INT"})
    assert str(alter_table(store, change_types={"a": "BIGINT"}).field("a").type) == "BIGINT"


def test_old_versions_are_brought_up_to_date(tmp_path: Path) -> None:
    store = TableStore(LocalFileIO(), str(tmp_path / "t"))
    text = (
        b'{"version": 1, "id": 0, "fields": [{"id": 0, "name": "a", "type": "INT"}], "highestFieldId": 0,'
        b' "partitionKeys": [], "primaryKeys": [], "options": {"bucket": "-1"}}'
    )
    assert store.io.create_if_absent(store.paths.schema(0), text)
    schema = alter_table(store, add_columns={"b": "INT"})
    assert schema.version == 3 and schema.options["file.format"] == "orc"
    assert parse_schema(store.io.read_bytes(store.paths.schema(1)), "s") == schema


@pytest.mark.parametrize(("key", "value"), [("partition.legacy-name", "false"), ("partition.default-name", "none")])
def test_directories_of_partitions_keep_their_names(key: str, value: str, tmp_path: Path) -> None:
    """Files are found by their partition's values and these options, by Java and here."""
    schema = pa.schema([("id", pa.int32()), ("day", pa.date32())])
    rows = pa.table([[1, 2], [date(2024, 1, 1), None]], schema=schema)
    table = pp.Table.create(tmp_path / "t", schema, partition_by=["day"])
    table.alter({key: value})
    table.alter(unset_options=[key])
    table.append(rows)
    table.alter({key: {"false": "TRUE"}.get(value, "__DEFAULT_PARTITION__")})
    for operation in (
        lambda: table.alter({key: value}),
        lambda: table.append(rows, options={key: value}),
        lambda: table.scan(options={key: value}),
    ):
        with pytest.raises(OptionError, match=key):
            operation()
    assert table.scan().to_arrow().sort_by("id") == rows
    other = pp.Table.create(tmp_path / "other", schema, partition_by=["day"], options={key: value})
    other.append(rows)
    with pytest.raises(OptionError, match=f"option {key} can't be changed: directories"):
        other.alter(unset_options=[key])
    assert other.scan().to_arrow().sort_by("id") == rows
    flat = pp.Table.create(tmp_path / "flat", schema)
    flat.append(rows)
    assert flat.alter({key: value}).options == {key: value}


_INDEXES = {"file-index.bitmap.columns": "s,d", "file-index.bitmap.s.index-block-size": "8 kb"}


def _indexed(path: Path) -> pp.Table:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("d", pa.string())])
    table = pp.Table.create(path, schema, options=_INDEXES)
    table.append([{"id": 1, "s": "a", "d": "x"}])
    return table


@pytest.mark.java
@requires_java_oracle
def test_a_column_that_java_has_renamed_leaves_its_index_behind(oracle: Oracle, tmp_path: Path) -> None:
    """Its options name a column that is gone: Java's writes fail until they are changed, and so do ours."""
    table = _indexed(tmp_path / "db.db/t")
    rows = pa.table({"id": [2], "text": ["b"], "d": ["y"]})
    with oracle.batch() as batch:
        batch.alter(tmp_path, "db.t", {"op": "rename", "name": "s", "to": "text"})
        write = batch.write(tmp_path, "db.t", rows, allow_fail=True)
    assert "s does not exist in column fields" in write.error
    table = pp.Table.open(table.path)
    with pytest.raises(UnknownColumnError, match=r"file-index\.bitmap\.columns.*no column s — alter the option"):
        table.append(rows)
    table.alter(add_columns={"n": "INT"}, column_comments={"text": "renamed"})
    table.alter(rename_columns={"d": "e"})
    assert table.options["file-index.bitmap.columns"] == "s,e"
    with pytest.raises(UnknownColumnError, match="no column nope"):
        table.alter({"file-index.bitmap.columns": "nope"})
    table.alter({"file-index.bitmap.columns": "text,e"}, unset_options=["file-index.bitmap.s.index-block-size"])
    table.append(pa.table({"id": [2], "text": ["b"], "e": ["y"], "n": pa.array([1], pa.int32())}))
    with oracle.batch() as batch:
        batch.write(tmp_path, "db.t", pa.table({"id": [3], "text": ["c"], "e": ["z"], "n": pa.array([1], pa.int32())}))
    assert table.count("text IN ('b', 'c')") == 2


def test_a_rename_here_takes_the_indexes_along(tmp_path: Path) -> None:
    table = _indexed(tmp_path / "t")
    table.alter(rename_columns={"s": "text"})
    assert table.options["file-index.bitmap.columns"] == "text,d"
    assert table.options["file-index.bitmap.text.index-block-size"] == "8 kb"
    table.append([{"id": 2, "text": "b", "d": "y"}])
    assert table.count("text = 'b'") == 1
