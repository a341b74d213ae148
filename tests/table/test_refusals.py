"""Each refusal of docs/compatibility.md: the error names its feature, and says what works instead."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.features import FEATURES
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.format import by_path
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from support.chains import chain_table
from support.clustered import edit_newest_entry

COLUMNS = "id INT NOT NULL, v INT"
ROW = [{"id": 1, "v": 2}]
BLOB_ROW = [{"id": 1, "b": b"x"}]
EVOLUTION_ON = {"row_tracking__enabled": "true", "data_evolution__enabled": "true"}
EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


class Case(NamedTuple):
    """``run`` is refused of what ``make`` makes in a directory."""

    feature: str
    cell: str
    make: Callable[[Path], Any]
    run: Callable[[Any], Any]
    hint: str


def _read(table: pp.Table) -> Any:
    return table.to_arrow()


def _append(table: pp.Table) -> Any:
    return table.append(ROW)


def _made(columns: str = COLUMNS, key: str | None = None, rows: bool = True, **options: str) -> Callable[[Path], Any]:
    """A table with a row. Options: with ``_`` for ``-``, and ``__`` for a dot."""

    def make(path: Path) -> pp.Table:
        table = pp.Table.create(path / "t", columns, primary_key=key, options=_options(options))
        if rows:
            table.append(ROW)
        return table

    return make


def _set(columns: str = COLUMNS, key: str | None = None, **options: str) -> Callable[[Path], Any]:
    """As `_made`, with further options that another writer gave it."""

    def make(path: Path) -> pp.Table:
        _made(columns, key, bucket="1" if key else "-1")(path)
        file = path / "t" / "schema" / "schema-0"
        schema = json.loads(file.read_text())
        schema["options"] |= _options(options)
        file.write_text(json.dumps(schema))
        METADATA_CACHE.clear()
        return pp.Table.open(path / "t")

    return make


def _options(options: Mapping[str, str]) -> dict[str, str]:
    return {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}


def _vector_added(path: Path) -> pp.Table:
    options = EVOLUTION | {"vector.file.format": "parquet"}
    table = pp.Table.create(path / "t", "id INT, v VECTOR<INT, 1>", options=options)
    table.append([{"id": 1, "v": [1]}])
    table.alter(add_columns={"w": "VECTOR<INT, 1>"})
    return table


def _blob(path: Path) -> pp.Table:
    table = pp.Table.create(path / "t", "id INT NOT NULL, b BLOB", primary_key="id", options={"bucket": "1"})
    table.append(BLOB_ROW)
    return table


def _blob_in_catalog(path: Path) -> pp.Catalog:
    (path / "d.db").mkdir(parents=True)
    _blob(path / "d.db")
    return pp.Catalog.open(path)


def _vectors_apart(path: Path) -> pp.Table:
    table = pp.Table.create(path / "t", "id INT, v VECTOR<INT, 1>", options=EVOLUTION)
    table.append([{"id": 1, "v": [1]}])
    table.alter({"vector.file.format": "parquet"})
    return pp.Table.open(table.path)


def _retyped(path: Path) -> pp.Table:
    table = _made()(path)
    file = path / "t" / "schema" / "schema-0"
    file.write_text(file.read_text().replace('"type": "INT"', '"type": "GEOMETRY"').replace('"INT"', '"GEOMETRY"'))
    METADATA_CACHE.clear()
    return pp.Table.open(table.path)


def _summed_chain(path: Path) -> pp.Table:
    return chain_table(path / "t", {"merge-engine": "aggregation"}, lambda _: None)


def _chain(path: Path) -> pp.Table:
    return chain_table(path / "t", {}, lambda _: None)


def _two_branches(path: Path) -> pp.Table:
    table = _made()(path)
    table.branches.create("b")
    table.alter({"scan.fallback-branch": "b"})
    return pp.Table.open(table.path)


def _updated(path: Path) -> pp.Table:
    table = _made(**{key.replace(".", "__").replace("-", "_"): value for key, value in EVOLUTION.items()})(path)
    table.append([{"id": 3, "v": 4}, {"id": 4, "v": 4}])
    table.update({"v": "7"}, "id = 1")
    return table


def _late_in_orc(path: Path) -> pp.Table:
    table = pp.Table.create(path / "t", "w ARRAY<TIMESTAMP(3)>", options={"file.format": "orc"})
    table.append(pa.table({"w": pa.array([[10**14]], pa.list_(pa.timestamp("ms")))}))
    return table


def _unnamed_file(path: Path) -> pp.Table:
    table = _made(key="id", bucket="1", sequence__snapshot_ordering="true", write_only="true")(path)
    edit_newest_entry(Path(table.path), lambda name: {"file_source": None})
    return pp.Table.open(table.path)


def _diff(table: pp.Table) -> Any:
    return table.snapshots.diff(1, 2).to_arrow()


CASES = [
    Case("append-tables", "write", lambda path: path / "t", lambda path: pp.Table.create(
        path, pa.schema([("a", pa.int32()), ("b", pa.binary())]), partition_by=["b"]).append(
        [{"a": 1, "b": b"x"}]), "partition by another column"),
    Case("snapshot-ordering", "read", _unnamed_file, _read, "new tables"),
    Case("snapshot-ordering", "write", _made(key="id", rows=False, bucket="-2", sequence__snapshot_ordering="true",
         write_only="true"), _append, "bucket=-1"),
    Case("key-indexes", "write", _set(key="id", pk_btree__index__columns="v"), _append, "Java Paimon"),
    Case("branches-of-partitions", "read", _two_branches, lambda t: t.scan(options={"incremental-between": "0,1"})
         .to_arrow(), "read one branch alone"),
    Case("chain-tables", "read", _summed_chain, _read, "what works: deduplicate"),
    *(Case("chain-tables", "read", _chain, run, hint) for run, hint in (
        (lambda t: t.scan(options={"incremental-between": "0,1"}).to_arrow(), "read one branch alone"),
        (lambda t: next(iter(t.follow())), "what works: false"))),
    Case("chain-tables", "write", _set(chain_table__enabled="true"), _append, "what works: false"),
    Case("upsert-key", "write", _set(upsert_key="id"), _append, "merge"),
    Case("data-evolution", "read", _updated, lambda t: t.scan(options={"incremental-between": "1,3"}).to_arrow(),
         "newest state"),
    Case("data-evolution", "read", _updated, _diff, "with scan()"),
    Case("data-evolution", "write", _updated, lambda t: t.delete("id = 3"), "deletion-vectors.enabled = true"),
    Case("format-tables", "read", _set(type="format-table"), lambda t: next(iter(t.follow())), "scan it"),
    Case("format-tables", "write", _set(type="format-table"), _append, "its own engine"),
    *(Case("object-tables", cell, _set(type=f"{kind}-table"), run, "what works: table") for kind in
      ("object", "lance", "iceberg") for cell, run in (("read", _read), ("write", _append))),
    Case("orc", "write", _made("id INT NOT NULL, v INT, w TIMESTAMP(3)", file__format="orc"),
         lambda t: t.append(pa.table({"id": [1], "v": [1], "w": pa.array([-1], pa.timestamp("ms"))},
                                     t.scan().arrow_schema)), "file.format=parquet"),
    Case("orc", "read", _late_in_orc, _read, "rewrite the table as Parquet"),
    *(Case(feature, "write", _set(key="id", changelog_producer="input", **{option: value}), _append, "avro, row are")
      for option, value, feature in (("file__format__per__level", "0:lance", "other-files"),
      ("file__format__per__level", "0:avro,5:mosaic", "mosaic-files"),
      ("changelog_file__format", "json", "other-files"))),
    Case("mosaic-files", "write", _made(), lambda t: t.append(ROW, options={"file.format": "mosaic"}), "Java Paimon 2"),
    *(Case("other-files", cell, _made(), lambda t, run=run, name=name: run(t, name), reader)
      for cell, run in (("read", lambda t, name: by_path(f"data-1.{name}")),
                        ("write", lambda t, name: t.append(ROW, options={"file.format": name})))
      for name, reader in (("vortex", "extra vortex"), ("lance", "extra lance"),
                           ("csv", "pypaimon-rust"), ("json", "pypaimon-rust"), ("text", "pypaimon-rust"))),
    *(Case("manifest-formats", cell, _set(manifest__format=name), run, "avro") for name in ("orc", "parquet")
      for cell, run in (("read", _read), ("write", _append))),
    Case("file-indexes", "write", _set(file_index__token__columns="id"), _append, "Java Paimon"),
    Case("external-paths", "write", _set(data_file__external_paths__strategy="round-robin"), _append, "none"),
    Case("variant", "write", lambda path: path / "t", lambda path: pp.Table.create(
        path, "id INT, v VARIANT", options={"variant.shreddingSchema": json.dumps({"type": "ROW", "fields": [
            {"name": "v", "type": {"type": "MAP", "key": "STRING", "value": "INT"}}]})}), "use ROW, ARRAY"),
    Case("variant", "write", lambda path: path / "t", lambda path: pp.Table.create(
        path, "id INT, v VARIANT", options={"file.format": "orc"}), "file.format=parquet"),
    Case("blob", "write", lambda path: path / "t", lambda path: pp.Table.create(
        path, "id INT NOT NULL, b BLOB", primary_key="id", options={"changelog-producer": "input"}), "no changelog"),
    *(Case("blob", "write", lambda path: path / "t", lambda path, column=column, bucket=bucket: pp.Table.create(
        path, f"id INT NOT NULL, b {column}", primary_key="id", options={"bucket": bucket}), "merge-engine deduplicate")
      for column, bucket in (("ARRAY<BLOB>", "1"), ("MAP<INT, BLOB>", "1"), ("BLOB", "-2"))),
    Case("blob", "write", _blob, lambda t: t.update({"b": "CAST('x' AS BINARY)"}), "append whole rows"),
    Case("blob", "write", _blob, lambda t: t.append(BLOB_ROW, options={"file.format": "row"}), "file.format=parquet"),
    Case("blob", "write", _blob, lambda t: t.alter(rename_columns={"b": "c"}), "add a column of the new name"),
    Case("blob", "write", _blob_in_catalog, lambda c: c.rename_table("d.t", "u"), "maintenance.clone"),
    Case("vector", "write", lambda path: path / "t", lambda path: pp.Table.create(
        path, "id INT, v VECTOR<INT, 1>", options=EVOLUTION | {"vector.file.format": "lance"}), "choose parquet"),
    Case("vector", "write", _vectors_apart, lambda t: t.update({"v": "array(2)"}), "full=True"),
    Case("vector", "write", _vector_added, lambda t: t.update({"v": "array(2)"}), "full=True"),
    Case("unknown-types", "read", _retyped, _read, "read the other columns"),
    Case("unknown-types", "write", _retyped, _append, "Java Paimon"),
    *(Case("iceberg", "write", _set(metadata__iceberg__storage="table-location", **more), _append, hint)
      for more, hint in (({"file__format": "orc"}, "use parquet"), (EVOLUTION_ON, "unset the other"),
                         ({"deletion_vectors__enabled": "true"}, "deletion-vectors.bitmap64=true"),
                         ({"map__storage_layout": "shared-shredding"}, "unset the layout"))),
    Case("iceberg", "write", _set(metadata__iceberg__storage="hive-catalog"), _append, "hadoop-catalog"),
    Case("iceberg", "write", _set(metadata__iceberg__storage="rest-catalog", metadata__iceberg__rest__uri="http://h",
                                  metadata__iceberg__rest__rest__auth__type="google"), _append, "oauth2"),
    Case("iceberg", "write", lambda path: path / "t", lambda path: pp.Table.create(
        path, "id INT, v TIMESTAMP(9)", options={"metadata.iceberg.storage": "table-location"}), "drop or cast"),
    *(Case("query-auth", cell, _set(query_auth__enabled="true"), run, "false") for cell, run in
      (("read", _read), ("write", _append))),
    *(Case("other-catalogs", cell, lambda path: path, lambda path, options=options: pp.Catalog.open(options), hint)
      for cell in ("read", "write") for options, hint in (
        ({"metastore": "glue"}, "metastore.client.class"),
        ({"metastore": "hive", "uri": "thrift://h", "warehouse": "/w", "metastore.client.class": "X"}, "paths"),
        ({"metastore": "jdbc", "uri": "jdbc:oracle:thin:@h", "warehouse": "/w"}, "paths"))),
    *(Case("hive-security", cell, lambda path: path, lambda path, setting=setting: pp.Catalog.open(
        {"metastore": "hive", "uri": "thrift://h", "warehouse": "/w", **setting}), "paths")
      for cell in ("read", "write") for setting in (
        {"hive.metastore.client.thrift.transport.mode": "http"}, {"hive.metastore.client.auth.mode": "PLAIN"})),
]  # fmt: skip

ELSEWHERE = {
    ("hive", "write"): "catalog/test_hive",
    ("glue", "write"): "catalog/test_glue",
    ("blob", "read"): "table/test_blob_references",
    ("extra-metadata", "write"): "metadata/test_manifest_codec",
    ("mosaic-files", "read"): "format/test_mosaic",
}
"""Refusals that other tests try."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.feature}-{case.cell}")
def test_it_is_refused_by_name_with_a_way_out(case: Case, tmp_path: Path) -> None:
    made = case.make(tmp_path)
    with pytest.raises(UnsupportedError) as caught:
        case.run(made)
    assert caught.value.feature == case.feature, caught.value
    assert case.hint in str(caught.value.hint), caught.value
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.feature, str(again)) == (case.feature, str(caught.value))


def test_each_refusal_of_the_page_is_tried() -> None:
    told = {(one.id, cell) for one in FEATURES for cell in ("read", "write") if "refused" in getattr(one, cell)}
    assert told == {(case.feature, case.cell) for case in CASES} | ELSEWHERE.keys()
    for (feature, _), file in ELSEWHERE.items():
        assert f'feature == "{feature}"' in (Path(__file__).parents[1] / f"{file}.py").read_text()


def test_errors_name_features_of_the_page() -> None:
    package = Path(pp.__file__).parent
    named = {name for path in package.rglob("*.py") for name in re.findall(r'feature="([\w-]+)"', path.read_text())}
    assert named <= {one.id for one in FEATURES}
    assert len({one.id for one in FEATURES}) == len(FEATURES)
