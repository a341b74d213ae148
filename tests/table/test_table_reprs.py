"""What people see of objects: one line each, and HTML in notebooks. No secret, no data file read, no failure."""

from __future__ import annotations

import pickle
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.secrets import human_bytes
from paimon_pyds.base.types import ArrayType, AtomicType, DataField, Kind, RowType
from paimon_pyds.engine.compact.compact import CompactSummary
from paimon_pyds.engine.rowlevel.changes import RowSummary
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import StorageError
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.ops.explain import notebook
from paimon_pyds.ops.index_tools.rewrite import RewriteSummary
from paimon_pyds.ops.rescale.rescale import RescaleSummary
from paimon_pyds.storage.local import LocalFileIO
from support.canary import CANARY, is_clean, texts_of

DATA = pa.table({"id": [1, 2, 3], "color": ["red", "red", "blue"], "dt": ["a", "a", "b"]})
MIB = 1 << 20


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    options = {"file-index.bitmap.columns": "color"}
    table = pp.Table.create(tmp_path / "t", DATA.schema, partition_by=["dt"], options=options, comment="<b>all</b>")
    table.append(DATA)
    return table


class _Text(HTMLParser):
    """The texts of HTML, and what it is made of."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def cells(html: str) -> list[str]:
    return _Text(html).texts


def test_plans_and_predicates_are_one_line_each(table: pp.Table) -> None:
    scan = table.scan("id > 1 and color in ('red', 'blue')")
    assert repr(scan.predicate) == "And(id > 1 AND color IN ('blue', 'red'))"
    assert repr(table.scan("id > 1").predicate) == "Leaf(id > 1)"
    assert repr(table.scan("id = 1 or upper(color) = 'RED'").predicate).startswith(
        "Or(id = 1 OR (upper(color) = 'RED')"
    )
    many = repr(table.scan(f"id in {tuple(range(0, 9_000, 7))}").predicate)
    assert many.endswith("… 1286 values))")
    plan = scan.plan()
    size = human_bytes(sum(file.size for file in plan.files))
    assert repr(plan.found) == f"Files(2 files, 3 rows, {size})"
    for step in (*plan.steps, *table.explain("id > 1").steps):
        text = f"PruneStep({step.name}, {step.files} files, {step.rows} rows, "
        assert repr(step).startswith(text.replace("1 files", "1 file"))
        assert repr(step).endswith(f", {step.millis:.1f} ms)")
    assert repr(table.write_context()) == f"WriteContext({table.path}, schema 0, id, color, dt)"


@pytest.mark.parametrize(
    ("summary", "line"),
    [
        (
            CompactSummary(snapshot_id=7, files=20, groups=1, files_before=12, files_after=3, rows=1000, seconds=0.42,
                           bytes_before=int(5.2 * MIB), bytes_after=int(4.9 * MIB), attempts=1),
            "CompactSummary: snapshot 7, 12 files became 3 (5.2 → 4.9 MiB, 1,000 rows) in 0.4 s",
        ),
        (
            CompactSummary(snapshot_id=7, files=2, files_before=2, files_after=1, rows=1, rows_dropped=9,
                           bytes_before=2 * MIB, bytes_after=2048, attempts=3, groups_skipped=1),
            "CompactSummary: snapshot 7, 2 files became 1 (2.0 MiB → 2.0 KiB, 1 row), 9 rows dropped, 1 group skipped, "
            "attempt 3 in 0.0 s",
        ),
        (
            CompactSummary(files=20, files_before=12, rows=1000, bytes_before=MIB, dry_run=True),
            "CompactSummary: dry run: 12 files would be rewritten (1.0 MiB, 1,000 rows) in 0.0 s",
        ),
        (CompactSummary(files=1), "CompactSummary: nothing to do with 1 file in 0.0 s"),
        (
            RescaleSummary(bucket_num=4, snapshot_id=2, partitions=1, files_before=1, files_after=4, rows=9,
                           bytes_before=900, bytes_after=1000, seconds=1.0, attempts=1),
            "RescaleSummary: snapshot 2, 1 partition to 4 buckets, 1 file became 4 (900 → 1,000 B, 9 rows) in 1.0 s",
        ),
        (RescaleSummary(bucket_num=4), "RescaleSummary: 4 buckets already in 0.0 s"),
        (
            RowSummary(8, rows_deleted=10, rows_updated=2, files_touched=1, files_added=2, bytes_written=2048),
            "RowSummary: snapshot 8, 10 rows deleted, 2 updated, 1 file touched, 2 added, 2.0 KiB written in 0.0 s",
        ),
        (RowSummary(None), "RowSummary: nothing changed in 0.0 s"),
        (
            RewriteSummary(3, files=5, rewritten=2, partitions=1, built=1, kept=2, rows=9, index_bytes=100),
            "RewriteSummary: snapshot 3, 2 of 5 files changed, 1 index built, 2 kept, 100 B of indexes in 0.0 s",
        ),
    ],
)  # fmt: skip
def test_summaries_are_one_plain_line(summary: object, line: str) -> None:
    assert repr(summary) == line == f"{type(summary).__name__}: {summary}"


def test_operations_give_summaries_that_say_what_they_did(table: pp.Table) -> None:
    assert repr(table.delete("id = 1")).startswith("RowSummary: snapshot 2, 1 row deleted, 1 file touched")
    assert repr(table.delete("id = 99")).startswith("RowSummary: nothing changed in")
    assert repr(table.compact()).startswith("CompactSummary: nothing to do with 2 files in")


def test_columns_types_and_schemas(table: pp.Table) -> None:
    string = AtomicType(Kind.VARCHAR, length=2_147_483_647)
    assert repr(DataField(3, "color", string)) == "DataField(color STRING, id 3)"
    assert repr(DataField(3, "color", string, "of it", "red")) == "DataField(color STRING, id 3, default red, of it)"
    assert repr(ArrayType(element=string, nullable=False)) == "ArrayType(ARRAY<STRING> NOT NULL)"
    assert repr(table.schema) == ("TableSchema(0: id BIGINT, color STRING, dt STRING, partitioned by dt, 1 option)")
    many = replace(table.schema, fields=tuple(DataField(i, f"c{i}", string) for i in range(1000)))
    assert repr(many).endswith("c7 STRING, and 992 more, partitioned by dt, 1 option)")
    deep = RowType(fields=tuple(DataField(i, "c" * 100, string) for i in range(1000)))
    assert repr(deep) == f"RowType({deep})"  # whole: predicates with casts to it are told apart by their reprs
    assert len(repr(DataField(0, "row", deep))) < 500


def test_snapshots(table: pp.Table) -> None:
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    at = replace(snapshot, time_millis=1_769_862_600_000)
    assert repr(at) == "Snapshot(1: APPEND (WRITE), 2026-01-31 12:30:00 UTC, 3 rows (+3), schema 0)"
    assert "9223372036854775807 ms" in repr(replace(snapshot, time_millis=2**63 - 1))
    assert "rows" not in repr(replace(snapshot, total_record_count=None))
    assert table.snapshots.list() == table._store.snapshots() and table.snapshots.list()[0].row_count == 3
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot


def test_stored_rows_and_the_number_of_rows_are_said_apart(tmp_path: Path) -> None:
    keyed = pp.Table.create(tmp_path / "k", DATA, primary_key="id", options={"bucket": 1, "write-only": True})
    keyed.append(DATA)
    assert [(s.total_record_count, s.row_count) for s in keyed.snapshots.list()] == [(3, None), (6, None)]
    assert ", 6 stored rows (+3), " in repr(keyed.snapshots.latest()) and keyed.count() == 3
    vectors = pp.Table.create(tmp_path / "v", DATA, options={"deletion-vectors.enabled": True})
    vectors.delete("id = 1")
    assert [(s.total_record_count, s.row_count) for s in vectors.snapshots.list()] == [(3, 3), (3, None)]
    assert ", 3 rows (+3), " in repr(vectors.snapshots.list()[0]) and ", 3 stored rows (+0), " in repr(
        vectors.snapshots.latest()
    )


def test_print_shows_columns_rows_and_snapshot(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in [*Path(table.path).rglob("*.parquet"), *Path(table.path, "manifest").iterdir()]:
        path.unlink()
    lines = str(table).splitlines()
    assert lines[0] == repr(table) == f"Table({table.path})"
    assert re.fullmatch(r"  snapshot: 1, APPEND, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", lines[1])
    assert lines[2:] == [
        "  rows: 3", "  partitioned by: dt", "  comment: <b>all</b>", "  columns:", "    id     BIGINT",
        "    color  STRING", "    dt     STRING",
    ]  # fmt: skip
    assert f"{table}" == str(table)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"primary_key": "id"}, "at most 3, as several versions of one key may be stored: table.count() counts them"),
        ({"options": {"deletion-vectors.enabled": True}}, "3"),
    ],
)  # fmt: skip
def test_a_number_of_rows_that_is_a_bound_is_marked(how: dict[str, Any], said: str, tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", DATA.schema, **how)
    assert "  snapshot: none, the table was never written\n" in str(table) and "rows:" not in str(table)
    table.append(DATA)
    assert f"  rows: {said}\n" in str(table)
    if how.get("options", {}).get("deletion-vectors.enabled"):
        table.delete("id = 1")
        assert "  rows: at most 3, as some may be deleted: table.count() counts them\n" in str(table)
        table.truncate()
        assert "  rows: 0\n" in str(table)


def test_columns_of_one_row_that_are_stored_apart_make_a_bound(table: pp.Table) -> None:
    schema = Path(table.path, "schema", "schema-0")
    schema.write_text(schema.read_text().replace('"options" : {', '"options" : {"data-evolution.enabled": "true",'))
    assert "  rows: at most 3, as columns of one row may be stored apart\n" in str(pp.Table.open(table.path))


def test_completion_lists_what_users_call(table: pp.Table) -> None:
    catalog = pp.Catalog(Path(table.path).parent)
    for thing, called in (
        (table, {"scan", "append", "to_arrow", "snapshots"}), (table.scan(), {"where", "to_arrow", "count", "explain"}),
        (catalog, {"tables", "exists"}), (table.system.scan("files"), {"to_arrow"}),
        (table.tags, {"list", "create"}), (table.snapshots.diff(1), {"summary"}),
    ):  # fmt: skip
        names = set(dir(thing))
        assert called <= names and "__class__" in names
        assert not [name for name in names if name.startswith("_") and not name.startswith("__")]
    scan = table.scan()
    assert scan._INTERNAL.isdisjoint(dir(scan)) and all(hasattr(scan, name) for name in scan._INTERNAL)


def test_print_never_fails(table: pp.Table) -> None:
    many = pp.Table.create(f"{table.path}-many", ", ".join(f"c{n} INT" for n in range(45)))
    assert str(many).endswith("    c39  INT\n    and 5 more: table.schema.fields has them all")
    odd = pp.Table.create(f"{table.path}-odd", {"a\nb\x1b[2J": [1], "w" * 500: [1]}, comment=f"x\ny {CANARY}" * 99)
    assert len(str(odd).splitlines()) == 7 and max(map(len, str(odd).splitlines())) <= 203
    assert "\x1b" not in str(odd)
    snapshot = Path(table.path, "snapshot", "snapshot-1")
    whole = snapshot.read_text()
    snapshot.write_text(whole.replace('"totalRecordCount"', '"other"'))
    assert "  rows: unknown, the snapshot does not say: table.count() counts them\n" in str(pp.Table.open(table.path))
    snapshot.write_text("{")
    assert str(pp.Table.open(table.path)).splitlines()[1].startswith("  it can't be shown: ")
    shutil.rmtree(table.path)
    assert str(table).splitlines()[0] == repr(table) == f"Table({table.path}, no table is here any more)"
    assert "it can't be shown: no Paimon table is here" in str(table)


def test_scans_plans_and_messages(table: pp.Table) -> None:
    scan = table.scan("color = 'red'", columns=["id", "__paimon_bucket"], limit=5)
    assert repr(scan) == (
        f"Scan({table.path}, snapshot 1, columns [id, __paimon_bucket], where color = 'red', limit 5)"
    )
    assert "top_n id" in repr(table.scan(top_n="id, 2"))
    assert "incremental" in repr(table.scan(options={"incremental-between": "0,1"}))
    plan = scan.plan()
    size = human_bytes(sum(f.size for f in plan.files))
    assert repr(plan) == f"ScanPlan(snapshot 1, 1 file, 2 rows, {size})"
    assert repr(plan.splits) == f"(Split(1 file, 2 rows, {size}),)"
    assert repr(plan.files[0]) == f"PlannedFile({plan.files[0].name}, 2 rows, {size})"
    assert repr(plan.files[0]._replace(window=(0, 1))).endswith(", rows 0 to 1)")
    assert repr(plan.spec) == "ReadSpec(columns [id, __paimon_bucket], filter color = 'red')"
    with TableWriter(table.write_context()) as writer:
        writer.write(DATA.to_batches()[0])
        message = writer.prepare_commit()
    assert repr(message).startswith("CommitMessage(2 files, 3 rows, ")
    assert repr(message).endswith(", 2 buckets)")
    assert repr(message.buckets[0]).startswith("BucketFiles(bucket 0, 1 file, 2 rows, ")
    assert repr(message.buckets[0].files[0]).endswith(", level 0)")
    table.abort([message])


def test_html_of_a_table_says_what_is_in_it_and_how_to_go_on(table: pp.Table) -> None:
    html = table._repr_html_()
    texts, snapshot = cells(html), table.snapshots.latest()
    assert snapshot is not None
    facts = dict(pairwise(texts))
    assert facts["snapshot"].startswith("1 (APPEND, 2")
    assert facts["rows"] == "3" and facts["partitions"] == "2" and facts["partitioned by"] == "dt"
    size = sum(table.system.read("files")["file_size_in_bytes"].to_pylist())
    assert facts["files"] == f"2 ({human_bytes(size)})"
    assert texts[texts.index("column") : texts.index("read rows")] == [
        "column", "type", "index", "id", "BIGINT", "color", "STRING", "bitmap", "dt", "STRING",
    ]  # fmt: skip
    namespace = {"table": table}
    assert eval(facts["read rows"], namespace).num_rows == 3
    assert eval(facts["what that takes"], namespace).files
    assert "<b>all</b>" in texts
    assert "&lt;b&gt;all&lt;/b&gt;" in html
    made_of = _Text(html)
    assert made_of.tags <= {"div", "b", "code", "span", "table", "tr", "th", "td"}
    assert made_of.attributes <= {"style"}
    assert len(html) < 8_000


def test_reports_and_questions_are_one_line(table: pp.Table) -> None:
    indexed = {"file-index.bitmap.columns": "color"}
    layout = table.index.layout()
    cost = table.index.cost(indexed, ["color = 'red'"])
    things = [
        layout, layout.compare(layout), table.index.advise_partition(["id > 1"]), cost,
        table.index.advise(["color = 'red'"]), table.index.verify(), table.explain("id > 1").files[0],
        table.scan().answer,
        table.system.scan("files"), table.system.audit_log(), table.system.binlog(),
    ]  # fmt: skip
    for thing in things:
        assert repr(thing).startswith(type(thing).__name__) and " object at 0x" not in repr(thing)
        assert len(repr(thing)) <= 420 and "\n" not in repr(thing) and "=(" not in repr(thing)
    assert str(cost).startswith("2 of 2 files sampled, ")
    assert str(table.index.advise(["color = 'red'"])).startswith("1 recorded filter, 2 of 2 files sampled, ")


def test_html_of_a_scan_runs_nothing(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = table.scan("color <> 'red' AND id > 2", columns=["id", "dt"], limit=2)
    for status in sorted((Path(table.path)).rglob("*.parquet")):
        status.unlink()
    monkeypatch.setattr(LocalFileIO, "read_bytes", _no_read)
    monkeypatch.setattr(LocalFileIO, "open", _no_read, raising=False)
    texts = cells(scan._repr_html_())
    facts = dict(pairwise(texts))
    assert facts["where"] == "color <> 'red' AND id > 2"
    assert facts["columns"] == "id, dt" and facts["limit"] == "2 rows"
    assert facts["snapshot"].startswith("1 (APPEND")
    assert facts["read rows"] == "scan.to_arrow()" and facts["what that takes"] == "scan.explain()"


def test_html_of_a_planned_scan_says_what_is_to_read(table: pp.Table) -> None:
    for filter_, wanted in ((None, "2 files, 3 rows, "), ("id > 2", "at most 1 file, ")):
        scan = table.scan(filter_)
        assert "not planned yet" in scan._repr_html_()
        scan.plan()
        assert dict(pairwise(cells(scan._repr_html_())))["to read"].startswith(wanted)


def _no_read(*_: object) -> bytes:
    raise AssertionError("a file was read")


def test_html_of_a_table_reads_no_data_file(table: pp.Table) -> None:
    before = table._repr_html_()
    for path in Path(table.path).rglob("*.parquet"):
        path.unlink()
    assert table._repr_html_() == before


def test_manifests_that_name_very_many_files_are_not_read(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "MAX_FILES", 1)
    texts = cells(table._repr_html_())
    assert texts[texts.index("files") + 1] == "2"
    assert "partitions" not in texts


def test_a_table_that_was_never_written(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", DATA.schema)
    assert "never written" in cells(table._repr_html_())
    assert "never written" in repr(table.scan())
    assert "never written" in cells(table.scan()._repr_html_())
    assert repr(table) == f"Table({tmp_path / 't'})"


def test_a_table_that_is_gone_says_so(table: pp.Table) -> None:
    scan = table.scan("id = 1")
    before = repr(scan), scan._repr_html_()
    shutil.rmtree(table.path)
    assert repr(table) == f"Table({table._last_store.root}, no table is here any more)"
    assert "There is no such table any more" in table._repr_html_()
    assert (repr(scan), scan._repr_html_()) == before


def test_storage_that_fails_fails_no_repr(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Iterator[object]:
        raise StorageError(f"refused: secret-key={CANARY}")

    monkeypatch.setattr(LocalFileIO, "list", fail)
    assert repr(table) == f"Table({table._last_store.root})"
    html = table._repr_html_()
    assert "It can't be shown: refused: secret-key=***" in cells(html)
    assert is_clean(html)


def test_damaged_metadata_and_unknown_indexes_are_shown_as_such(table: pp.Table) -> None:
    path = Path(table.path, "schema", "schema-0")
    path.write_text(path.read_text().replace("file-index.bitmap.columns", "file-index.unheard-of.columns"))
    texts = cells(pp.Table.open(table.path)._repr_html_())
    assert "BIGINT" in texts and any("unheard-of" in text for text in texts)
    path.write_text("no JSON")
    assert any("can't be shown" in text for text in cells(table._repr_html_()))


def test_secrets_are_nowhere(table: pp.Table) -> None:
    schema = replace(
        table.schema,
        options={"s3.secret-key": CANARY},
        comment=f"password={CANARY}",
        fields=(DataField(0, "id", AtomicType(Kind.INT), f"token: {CANARY}", f"secret='{CANARY}'"),),
    )
    scan = table.scan(f"color = 'password={CANARY}'")
    assert is_clean(texts_of(schema, scan))
    snapshot = table.snapshots.latest()
    assert isinstance(snapshot, Snapshot)
    assert is_clean(repr(replace(snapshot, properties={"token": CANARY}, commit_user=CANARY)))
