"""sequence.snapshot-ordering: of two versions of a key that of the later snapshot wins, whatever its number is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.engine.append import commit_messages
from paimon_pyds.engine.execution.writing import write_context
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import OptionError, PaimonError, UnsupportedError
from paimon_pyds.metadata.commit_message import CommitMessage
from support.clustered import edit_newest_entry
from support.effort import LONG, examples
from support.peers import Peer, Pypaimon, Rust
from support.v2_fixtures import Read, read_id, v2_copy, v2_reads
from support.values import lines

OPTIONS = {"sequence.snapshot-ordering": "true", "write-only": "true", "bucket": "1"}
_SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int32())])


def _table(path: Path, **options: str) -> pp.Table:
    return pp.Table.create(path / "t", _SCHEMA, primary_key=["k"], options={**OPTIONS, **options})


def _rows(keys: Sequence[int], value: int) -> pa.Table:
    return pa.table({"k": keys, "v": [value] * len(keys)}, _SCHEMA)


def _prepared(table: pp.Table, rows: pa.Table) -> CommitMessage:
    with TableWriter(write_context(table._store)) as writer:
        for batch in rows.to_batches():
            writer.write(batch)
        return writer.prepare_commit()


def _pairs(rows: pa.Table) -> dict[int, int]:
    pairs = dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert len(pairs) == rows.num_rows
    return pairs


@pytest.mark.parametrize("read", v2_reads("snapshot_ordering"), ids=read_id)
def test_rows_that_spark_wrote(read: Read, tmp_path: Path) -> None:
    table = pp.Table.open(v2_copy("snapshot_ordering", tmp_path))
    assert lines(table.scan(read.filter, columns=read.columns).to_arrow()) == read.rows


def test_writes_and_compactions_go_on_where_spark_ended(tmp_path: Path) -> None:
    table = pp.Table.open(v2_copy("snapshot_ordering", tmp_path))
    table.append([{"id": 1, "v": "d1"}, {"id": 5, "v": "d5"}])
    table.delete("id = 4")
    after = [{"id": 1, "v": "d1"}, {"id": 2, "v": "c2"}, {"id": 5, "v": "d5"}]
    assert table.to_arrow().sort_by("id").to_pylist() == after
    table.compact(full=True)
    assert table.to_arrow().sort_by("id").to_pylist() == after
    (file,) = table.system.read("files").to_pylist()
    assert (file["min_sequence_number"], file["max_sequence_number"], file["file_source"]) == (4, 6, "COMPACT")


def test_the_snapshot_is_stamped_in_every_try_of_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path)
    messages = [_prepared(table, _rows([1, value], value)) for value in (2, 3)]
    from paimon_pyds.engine.commit import committer

    build = committer._Commit.build
    other = [messages[1]]

    def slow(self: Any, *arguments: Any) -> Any:
        made = build(self, *arguments)
        if other:
            commit_messages(table._store, [other.pop()])
        return made

    monkeypatch.setattr(committer._Commit, "build", slow)
    commit_messages(table._store, [messages[0]])
    assert _pairs(table.to_arrow()) == {1: 2, 2: 2, 3: 3}
    stamped = {(f["min_sequence_number"], f["max_sequence_number"]) for f in table.system.read("files").to_pylist()}
    assert stamped == {(1, 1), (2, 2)}


_OPERATION = st.one_of(
    st.tuples(st.just("prepare"), st.lists(st.integers(0, 6), min_size=1, max_size=5)),
    st.tuples(st.just("commit"), st.integers(0, 5)),
    st.tuples(st.just("append"), st.lists(st.integers(0, 6), min_size=1, max_size=5)),
    st.tuples(st.just("delete"), st.integers(0, 6)),
    st.tuples(st.just("update"), st.integers(0, 6)),
    st.tuples(st.just("compact"), st.booleans()),
    st.tuples(st.just("rescale"), st.integers(1, 3)),
)


@settings(max_examples=examples(8))
@given(st.lists(_OPERATION, min_size=3, max_size=12), st.sampled_from(["parquet", "orc", "avro"]), st.booleans())
def test_the_newest_commit_of_each_key_is_read(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, Any]], format_: str, vectors: bool
) -> None:
    """Writers prepare rows and commit them later, in any order: their numbers say nothing."""
    options = {"file.format": format_, "num-sorted-run.compaction-trigger": "2"}
    if vectors:
        options |= {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"}
    table = _table(tmp_path_factory.mktemp("t"), **options)
    model: dict[int, int] = {}
    waiting: list[tuple[list[int], int, CommitMessage]] = []
    for value, (what, of) in enumerate(operations):
        match what:
            case "prepare":
                waiting.append((of, value, _prepared(table, _rows(of, value))))
            case "commit" if waiting:
                keys, own, message = waiting.pop(of % len(waiting))
                commit_messages(table._store, [message])
                model |= dict.fromkeys(keys, own)
            case "append":
                table.append(_rows(of, value))
                model |= dict.fromkeys(of, value)
            case "delete":
                table.delete(f"k = {of}")
                model.pop(of, None)
            case "update":
                table.update({"v": str(value)}, f"k = {of}")
                model |= {of: value} if of in model else {}
            case "compact":
                table.compact(full=of)
            case "rescale" if not waiting:
                table.maintenance.rescale(of)
        assert _pairs(table.to_arrow()) == model
    assert table.count() == len(model)
    assert _pairs(table.scan("v >= 3").to_arrow()) == {k: v for k, v in model.items() if v >= 3}
    assert not table.maintenance.verify(deep=True).findings
    found = table.lookup(list(range(7)))
    assert _pairs(found) == model
    table.compact(full=True)
    assert _pairs(table.to_arrow()) == model


@pytest.fixture(params=["rust", "pypaimon"])
def peer(request: pytest.FixtureRequest, tmp_path: Path) -> Peer:
    return Rust(tmp_path) if request.param == "rust" else Pypaimon(tmp_path)


def test_peers_read_what_is_compacted_here(tmp_path: Path, peer: Peer) -> None:
    """They pass over the option, and go by the numbers in files: those of a compaction are snapshots."""
    schema = pa.schema([("k", pa.int32()), ("v", pa.int32())])
    table = pp.Table.open(peer.create("t", schema, ["k"], [], OPTIONS))
    late = _prepared(table, _rows([1, 2], 9))
    table.append(_rows([1, 2, 3], 1))
    table.append(_rows([1, 3], 2))
    commit_messages(table._store, [late])
    assert _pairs(table.to_arrow()) == {1: 9, 2: 9, 3: 2}
    table.compact(full=True)
    assert _pairs(peer.read("t")) == _pairs(table.to_arrow()) == {1: 9, 2: 9, 3: 2}
    table.append(_rows([2], 5))
    assert _pairs(peer.read("t")) == _pairs(table.to_arrow()) == {1: 9, 2: 5, 3: 2}
    peer.append("t", _rows([1], 7))
    assert _pairs(peer.read("t")) == _pairs(table.to_arrow()) == {1: 7, 2: 5, 3: 2}
    model = {1: 7, 2: 5, 3: 2}
    for value in range(10, 20 if LONG else 14 if isinstance(peer, Rust) else 12):
        late = _prepared(table, _rows([value % 4, 7], value))
        table.append(_rows([value % 3, 7], -value))
        commit_messages(table._store, [late])
        table.compact(full=True)
        model.update({value % 3: -value, 7: value} | {value % 4: value})
        assert _pairs(peer.read("t")) == _pairs(table.to_arrow()) == model


def test_files_that_do_not_say_what_made_them_are_refused(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.append(_rows([1], 1))
    edit_newest_entry(tmp_path / "t", lambda name: {"file_source": None})
    with pytest.raises(UnsupportedError, match=r"snapshot-ordering: the data file data-.* does not say") as caught:
        pp.Table.open(tmp_path / "t").to_arrow()
    assert "new tables" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sequence.field": "v"}, OptionError, "sequence.field contradict each other"),
        ({"write-only": "false"}, OptionError, "needs write-only=true"),
    ],
)
def test_contradictions_are_refused(
    tmp_path: Path, options: dict[str, str], error: type[PaimonError], message: str
) -> None:
    with pytest.raises(error, match=message):
        _table(tmp_path, **options)
    assert not list(tmp_path.rglob("schema-*"))


def test_rows_that_would_wait_for_a_bucket_are_refused(tmp_path: Path) -> None:
    table = _table(tmp_path, bucket="-2")
    with pytest.raises(UnsupportedError, match=r"bucket=-2 can't be written: .* would lose the snapshot"):
        table.append(_rows([1], 1))
