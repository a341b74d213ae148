"""LibhdfsFileIO over a pyarrow file system of this machine that stands in for Hadoop's."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from paimon_pyds.errors import AlreadyExistsError, CorruptFileError, OptionError, StorageError, UnsupportedError
from paimon_pyds.storage import FileIO, libhdfs
from paimon_pyds.storage.libhdfs import LibhdfsFileIO
from paimon_pyds.storage.object_store import ObjectStoreFileIO


@pytest.fixture
def io(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LibhdfsFileIO:
    (tmp_path / "wh").mkdir()
    store = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    monkeypatch.setattr(libhdfs, "_connect", lambda root, arguments: store)
    return LibhdfsFileIO("hdfs://name:8020/wh")


def test_reading(io: LibhdfsFileIO) -> None:
    assert isinstance(io, FileIO)
    io.replace("hdfs://name:8020/wh/f", b"0123456789")
    assert io.read_bytes("hdfs://name:8020/wh/f") == b"0123456789"
    assert io.read_range("hdfs://name:8020/wh/f", 2, 3) == b"234"
    assert io.read_ranges("hdfs://name:8020/wh/f", [(8, 2), (0, 1)]) == [b"89", b"0"]
    assert io.size("hdfs://name:8020/wh/f") == 10
    assert io.exists("hdfs://name:8020/wh/f") and not io.exists("hdfs://name:8020/wh/g")
    with io.open_input("hdfs://name:8020/wh/f") as file:
        assert file.read(3) == b"012"
    with pytest.raises(CorruptFileError):
        io.read_range("hdfs://name:8020/wh/f", 9, 2)
    for call in (io.read_bytes, io.size, io.open_input, lambda p: io.read_range(p, 0, 1)):
        with pytest.raises(FileNotFoundError):
            call("hdfs://name:8020/wh/none")


def test_listing(io: LibhdfsFileIO) -> None:
    io.make_dir("hdfs://name:8020/wh/d/sub")
    io.write_bytes("hdfs://name:8020/wh/d/b", b"22")
    io.write_bytes("hdfs://name:8020/wh/d/a", b"1")
    entries = io.list("hdfs://name:8020/wh/d")
    assert [(e.path, e.name, e.size, e.is_dir) for e in entries] == [
        ("hdfs://name:8020/wh/d/a", "a", 1, False),
        ("hdfs://name:8020/wh/d/b", "b", 2, False),
        ("hdfs://name:8020/wh/d/sub", "sub", 0, True),
    ]
    assert io.list("hdfs://name:8020/wh/none") == []


def test_writing_data_files(io: LibhdfsFileIO) -> None:
    output = io.open_output("hdfs://name:8020/wh/o")
    output.sink.write(b"abc")
    assert output.tell() == 3
    assert output.close() == output.close() == 3
    with pytest.raises(StorageError, match="exists"):
        io.write_bytes("hdfs://name:8020/wh/o", b"x")
    aborted = io.open_output("hdfs://name:8020/wh/p")
    aborted.sink.write(b"abc")
    aborted.abort()
    aborted.abort()
    assert not io.exists("hdfs://name:8020/wh/p")
    io.delete(["hdfs://name:8020/wh/o", "hdfs://name:8020/wh/none"])
    assert not io.exists("hdfs://name:8020/wh/o")
    io.make_dir("hdfs://name:8020/wh/tree")
    io.delete_tree("hdfs://name:8020/wh/tree")
    io.delete_tree("hdfs://name:8020/wh/tree")


def test_publishing_is_refused_not_risked(io: LibhdfsFileIO) -> None:
    with pytest.raises(UnsupportedError, match=r"committing to tables on HDFS needs hdfs-native.*paimon-pyds\[hdfs\]"):
        io.create_if_absent("hdfs://name:8020/wh/snapshot-1", b"x")
    assert not io.exists("hdfs://name:8020/wh/snapshot-1")


def test_renaming(io: LibhdfsFileIO) -> None:
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
        LibhdfsFileIO("hdfs://name:8020/wh").exists("hdfs://name:8020/wh/t")
    assert str(caught.value) == (
        "tables on HDFS need the package hdfs-native, or Hadoop, of which this machine has no libjvm — at "
        "hdfs://name:8020/wh — pip install 'paimon-pyds[hdfs]'; for Hadoop set JAVA_HOME, HADOOP_HOME, and CLASSPATH "
        "to what `hadoop classpath --glob` prints"
    )


def test_options_and_their_secrecy() -> None:
    io = ObjectStoreFileIO("s3://b/t", {"s3.secret-key": "hush", "s3.endpoint": "http://h:9"})
    assert "hush" not in repr(io) and "hush" not in str(io)
    assert io._arguments == {"secret_access_key": "hush", "aws_endpoint_url_s3": "http://h:9"}
    again = pickle.loads(pickle.dumps(io))
    assert again._arguments == io._arguments and again._stores == {}
    hadoop = {"fs.s3a.access.key": "k", "gs.project-id": "of another store", "warehouse": "x"}
    assert ObjectStoreFileIO("s3a://b/t", hadoop)._arguments == {"access_key_id": "k"}
    for options in ({"s3.acces-key": "typo"}, {"s3.anonymous": "maybe"}, {"s3.request-timeout": "soon"}):
        with pytest.raises(OptionError):
            ObjectStoreFileIO("s3://b/t", options)


def test_files_of_another_store() -> None:
    azure = ObjectStoreFileIO("abfss://c@acc.dfs.core.windows.net/t")
    with pytest.raises(UnsupportedError, match="in one store"):
        azure.read_bytes("s3://b/f")
    with pytest.raises(UnsupportedError, match=r"with a file on 'other\.dfs\.core\.windows\.net' is not supported"):
        azure.read_bytes("abfss://c@other.dfs.core.windows.net/f")
    with pytest.raises(UnsupportedError, match="with a file on 'name:9000' is not supported"):
        LibhdfsFileIO("hdfs://name:8020/t").read_bytes("hdfs://name:9000/f")


def test_credentials_in_an_address_are_refused_and_not_shown() -> None:
    with pytest.raises(OptionError, match="credentials in the address") as caught:
        ObjectStoreFileIO("s3://me:hunter2@bucket/t")
    assert "hunter2" not in str(caught.value)
    ObjectStoreFileIO("abfss://container@account.dfs.core.windows.net/t")
