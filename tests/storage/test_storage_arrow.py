"""ArrowFileIO over a pyarrow file system of this machine that stands in for an object store."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from paimon_pyds.errors import AlreadyExistsError, CorruptFileError, OptionError, StorageError, UnsupportedError
from paimon_pyds.storage import FileIO
from paimon_pyds.storage import pyarrow_files as arrow_module
from paimon_pyds.storage.pyarrow_files import ArrowFileIO


@pytest.fixture
def io(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArrowFileIO:
    (tmp_path / "bucket").mkdir()
    store = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    monkeypatch.setattr(arrow_module, "_connect", lambda root, arguments: store)
    return ArrowFileIO("s3://bucket/wh", {"s3.access-key": "AKIA", "s3.secret-key": "hush"})


def test_reading(io: ArrowFileIO) -> None:
    assert isinstance(io, FileIO)
    io.replace("s3://bucket/f", b"0123456789")
    assert io.read_bytes("s3://bucket/f") == b"0123456789"
    assert io.read_range("s3://bucket/f", 2, 3) == b"234"
    assert io.read_ranges("s3://bucket/f", [(8, 2), (0, 1)]) == [b"89", b"0"]
    assert io.size("s3://bucket/f") == 10
    assert io.exists("s3://bucket/f") and not io.exists("s3://bucket/g")
    with io.open_input("s3://bucket/f") as file:
        assert file.read(3) == b"012"
    with pytest.raises(CorruptFileError):
        io.read_range("s3://bucket/f", 9, 2)
    for call in (io.read_bytes, io.size, io.open_input, lambda p: io.read_range(p, 0, 1)):
        with pytest.raises(FileNotFoundError):
            call("s3://bucket/none")


def test_listing(io: ArrowFileIO) -> None:
    io.make_dir("s3://bucket/d/sub")
    io.write_bytes("s3://bucket/d/b", b"22")
    io.write_bytes("s3://bucket/d/a", b"1")
    entries = io.list("s3://bucket/d")
    assert [(e.path, e.name, e.size, e.is_dir) for e in entries] == [
        ("s3://bucket/d/a", "a", 1, False),
        ("s3://bucket/d/b", "b", 2, False),
        ("s3://bucket/d/sub", "sub", 0, True),
    ]
    assert io.list("s3://bucket/none") == []


def test_writing_data_files(io: ArrowFileIO) -> None:
    output = io.open_output("s3://bucket/o")
    output.sink.write(b"abc")
    assert output.tell() == 3
    assert output.close() == output.close() == 3
    with pytest.raises(StorageError, match="exists"):
        io.write_bytes("s3://bucket/o", b"x")
    aborted = io.open_output("s3://bucket/p")
    aborted.sink.write(b"abc")
    aborted.abort()
    aborted.abort()
    assert not io.exists("s3://bucket/p")
    io.delete(["s3://bucket/o", "s3://bucket/none"])
    assert not io.exists("s3://bucket/o")
    io.make_dir("s3://bucket/tree")
    io.delete_tree("s3://bucket/tree")
    io.delete_tree("s3://bucket/tree")


def test_publishing_is_refused_not_risked(io: ArrowFileIO) -> None:
    with pytest.raises(UnsupportedError, match="committing to tables on s3:// is not supported by pyarrow"):
        io.create_if_absent("s3://bucket/snapshot-1", b"x")
    assert not io.exists("s3://bucket/snapshot-1")
    with pytest.raises(UnsupportedError, match="rename"):
        io.rename("s3://bucket/a", "s3://bucket/b")


def test_renaming_where_the_store_has_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    monkeypatch.setattr(arrow_module, "_connect", lambda root, arguments: store)
    io = ArrowFileIO("hdfs://name:8020/wh")
    io.write_bytes("hdfs://name:8020/wh/t/f", b"x")
    io.make_dir("hdfs://name:8020/wh/u")
    with pytest.raises(AlreadyExistsError):
        io.rename("hdfs://name:8020/wh/t", "hdfs://name:8020/wh/u")
    io.rename("hdfs://name:8020/wh/t", "hdfs://name:8020/wh/v")
    assert io.read_bytes("hdfs://name:8020/wh/v/f") == b"x"


def test_hadoop_that_is_not_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(**_: object) -> None:
        raise OSError("Unable to load libjvm\ndlopen(/usr/lib/jvm/libjvm.so) failed: no such file" * 9)

    monkeypatch.setattr(pafs, "HadoopFileSystem", load)
    with pytest.raises(UnsupportedError) as caught:
        ArrowFileIO("hdfs://name:8020/wh").exists("hdfs://name:8020/wh/t")
    assert str(caught.value) == (
        "hdfs is read through Hadoop, of which libjvm is not found on this machine — at hdfs://name:8020/wh — set "
        "JAVA_HOME, HADOOP_HOME, and CLASSPATH to what `hadoop classpath --glob` prints"
    )


def test_options_and_their_secrecy() -> None:
    io = ArrowFileIO("s3://b/t", {"s3.secret-key": "hush", "s3.endpoint": "http://h:9", "s3.path-style-access": "true"})
    assert "hush" not in repr(io) and "hush" not in str(io)
    assert io._arguments == {
        "secret_key": "hush",
        "endpoint_override": "http://h:9",
        "force_virtual_addressing": False,
    }
    again = pickle.loads(pickle.dumps(io))
    assert again._arguments == io._arguments and again._fs is None
    hadoop = ArrowFileIO("s3a://b/t", {"fs.s3a.access.key": "k", "gs.project-id": "of another store", "warehouse": "x"})
    assert hadoop._arguments == {"access_key": "k"}
    for options in ({"s3.acces-key": "typo"}, {"s3.anonymous": "maybe"}, {"s3.request-timeout": "soon"}):
        with pytest.raises(OptionError):
            ArrowFileIO("s3://b/t", options)


def test_an_account_key_that_is_not_base64_is_told_as_it_is() -> None:
    root = "abfss://c@acc.dfs.core.windows.net/t"
    with pytest.raises(OptionError, match=r"^azure\.account-key is not base64"):
        ArrowFileIO(root, {"azure.account-key": "hush!"}).exists(root)


def test_azure_containers_and_foreign_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "f").write_bytes(b"x")
    store = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    monkeypatch.setattr(arrow_module, "_connect", lambda root, arguments: store)
    io = ArrowFileIO("abfss://c@acc.dfs.core.windows.net/t")
    assert io.read_bytes("abfss://c@acc.dfs.core.windows.net/f") == b"x"
    with pytest.raises(UnsupportedError, match="in one go"):
        io.read_bytes("s3://b/f")
    with pytest.raises(UnsupportedError, match=r"'other\.dfs\.core\.windows\.net' can't be read in one go"):
        io.read_bytes("abfss://c@other.dfs.core.windows.net/f")
    with pytest.raises(UnsupportedError, match="'name:9000' can't be read in one go"):
        ArrowFileIO("hdfs://name:8020/t").read_bytes("hdfs://name:9000/f")


def test_credentials_in_an_address_are_refused_and_not_shown() -> None:
    with pytest.raises(OptionError, match="credentials in the address") as caught:
        ArrowFileIO("s3://me:hunter2@bucket/t")
    assert "hunter2" not in str(caught.value)
    ArrowFileIO("abfss://container@account.dfs.core.windows.net/t")
