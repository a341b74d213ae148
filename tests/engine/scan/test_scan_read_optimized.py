"""The option ``read-optimized`` and the system table ``ro``: what compactions left on the highest level."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import OptionError
from support.fixtures import fixture_dir, fixture_names, meta, requires_shared, table_path
from support.oracle import Oracle, requires_java_oracle
from support.values import dumps, expected_lines, in_order, lines

RO = {"read-optimized": "true"}


@requires_shared
def test_the_fixture_is_java_s() -> None:
    (read,) = (read for read in meta("pk_dedup_mor")["reads"] if read.get("table") == "db.t$ro")
    found = pp.Table.open(table_path("pk_dedup_mor")).system.read("$ro")
    assert in_order(lines(found)) == in_order(expected_lines(fixture_dir("pk_dedup_mor") / read["expected"]))


@requires_shared
@requires_java_oracle
def test_tables_with_a_primary_key_are_java_s(oracle: Oracle) -> None:
    names = [name for name in fixture_names() if name.startswith(("pk_", "evolve_pk"))]
    with oracle.batch() as batch:
        replies = [batch.read(Path(table_path(name)).parent.parent, "db.t$ro") for name in names]
    sizes = []
    for name, reply in zip(names, replies, strict=True):
        table = pp.Table.open(table_path(name))
        scan = table.scan(options=RO)
        found = scan.to_arrow()
        assert in_order(lines(found)) == in_order(map(dumps, reply.values)), name
        assert scan.count() == found.num_rows
        assert not any(file.merged for file in scan.plan().files)
        sizes.append((found.num_rows, table.count()))
    assert sum(0 < few == every for few, every in sizes) > 3
    assert sum(0 < few != every for few, every in sizes) > 3
    assert sum(few == 0 < every for few, every in sizes) > 3


def test_an_append_table_is_itself(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2, 3]}))
    assert table.system.read("ro").to_pylist() == table.scan().to_arrow().to_pylist()
    assert table.count("id > 1", options=RO) == 2


@requires_shared
def test_what_is_left_out_is_explained() -> None:
    e = pp.Table.open(table_path("pk_dedup_mor")).explain(options=RO)
    assert {(skip.step, skip.reason) for skip in e.skips} == {("not compacted", "not on the highest level")}


def test_what_contradicts_it_is_refused(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    for _ in range(2):
        table.append(pa.table({"id": [1]}))
    with pytest.raises(OptionError, match="read-optimized and incremental-between"):
        table.scan(options={**RO, "incremental-between": "1,2"})
    with pytest.raises(OptionError, match="option read-optimized must be true or false"):
        table.scan(options={"read-optimized": "perhaps"})
    with pytest.raises(OptionError, match="did you mean read-optimized"):
        table.scan(options={"read-optimised": "true"})
