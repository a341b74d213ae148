from __future__ import annotations

import os
from pathlib import Path

import pytest

from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.storage import normalise_location, open_file_io
from paimon_pyds.storage.arrow import ArrowFileIO
from paimon_pyds.storage.local import LocalFileIO


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/wh/db.db/t", "/wh/db.db/t"),
        ("/wh//db.db/./t/", "/wh/db.db/t"),
        ("/wh/x/../t", "/wh/t"),
        (Path("/wh/t"), "/wh/t"),
        ("file:///wh/t", "/wh/t"),
        ("file:/wh/t/", "/wh/t"),
        ("FILE:///wh/t", "/wh/t"),
        ("file://localhost/wh/t", "/wh/t"),
        ("file:/wh/p=a%3Db", "/wh/p=a%3Db"),
        ("dbfs:/Volumes/main/x/y", "/Volumes/main/x/y"),
        ("dbfs:///Volumes/main/x", "/Volumes/main/x"),
        ("dbfs:/data/t", "/dbfs/data/t"),
        ("/Volumes/main/x", "/Volumes/main/x"),
        ("s3://bucket/wh//t/", "s3://bucket/wh/t"),
        ("S3A://bucket/t", "s3a://bucket/t"),
        ("gs://bucket", "gs://bucket"),
        ("abfss://c@account.dfs.core.windows.net/t", "abfss://c@account.dfs.core.windows.net/t"),
        ("hdfs://host:8020/t", "hdfs://host:8020/t"),
    ],
)
def test_locations_have_one_spelling(location: str | Path, path: str) -> None:
    assert normalise_location(location) == path
    assert normalise_location(path) == path


def test_relative_and_home_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert normalise_location("wh/t") == os.path.join(os.getcwd(), "wh/t")
    assert normalise_location("~/t") == "/home/me/t"


@pytest.mark.parametrize("location", ["", "  ", "a\0b", b"/bytes", "file://elsewhere/t"])
def test_what_is_no_location(location: str) -> None:
    with pytest.raises(OptionError):
        normalise_location(location)


def test_the_io_fits_the_scheme() -> None:
    io, path = open_file_io("file:///tmp/x", {"s3.access-key": "ignored"})
    assert isinstance(io, LocalFileIO) and path == "/tmp/x"
    io, path = open_file_io("s3://bucket/t")
    assert isinstance(io, ArrowFileIO) and path == "s3://bucket/t"


@pytest.mark.parametrize("location", ["oss://b/t", "http://h/t", "wasbs://c@a/t", "nonsense://x"])
def test_other_schemes_are_refused_with_a_way_out(location: str) -> None:
    with pytest.raises(UnsupportedError, match=r"not supported.*(use|mount|download)"):
        open_file_io(location)
