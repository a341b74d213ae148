from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import paimon_pyds as pp
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.storage import normalise_location, open_file_io
from paimon_pyds.storage.local import LocalFileIO
from paimon_pyds.storage.object_store import ObjectStoreFileIO


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
        ("HDFS://names//wh/./t/", "hdfs://names/wh/t"),
        ("hdfs:///wh/t/", "hdfs:///wh/t"),
        ("hdfs:/wh/t", "hdfs:///wh/t"),
        ("viewfs:///wh/t", "viewfs:///wh/t"),
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
    assert isinstance(io, ObjectStoreFileIO) and path == "s3://bucket/t"


@pytest.mark.parametrize("location", ["cosn://b/t", "http://h/t", "wasbs://c@a/t", "nonsense://x"])
def test_other_schemes_are_refused_with_a_way_out(location: str) -> None:
    with pytest.raises(UnsupportedError, match=r"not supported.*(use|mount|download)"):
        open_file_io(location)


@pytest.mark.parametrize(
    ("location", "name", "near"),
    [
        ("/wh/t", "s3.acess-key", "did you mean s3.access-key"),
        ("s3://bucket/t", "access-key", "did you mean s3.access-key"),
        ("s3://bucket/t", "s3.secret_key", "did you mean s3.secret-key"),
        ("s3://bucket/t", "fs.s3a.endpont", "did you mean s3.endpoint"),
        ("gs://bucket/t", "gs.acces-token", "did you mean gs.access-token"),
        ("s3://bucket/t", "s3.zzzzzz", "there are: s3.access-key"),
        ("/wh/t", "foo", "there are: "),
        ("s3://bucket/t", "AWS_ACCESS_KEY_ID", "did you mean s3.access-key"),
        ("s3://bucket/t", "aws_access_key_idd", "did you mean s3.access-key?"),
        ("s3://bucket/t", "aws_secret_acces_key", "did you mean s3.secret-key?"),
        ("s3://bucket/t", "aws_secret_access_key", "did you mean s3.secret-key"),
    ],
)
def test_storage_options_that_no_store_knows_are_refused_with_near_names(location: str, name: str, near: str) -> None:
    with pytest.raises(OptionError, match=f"unknown storage option '{re.escape(name)}' — {near}"):
        open_file_io(location, {name: "x"})
    with pytest.raises(OptionError, match=f"unknown storage option '{re.escape(name)}'"):
        pp.Catalog(location, {name: "x"})


def test_what_is_no_name_of_a_storage_option_at_all_may_be_a_secret() -> None:
    for name, told in (
        ("kJ8f/Zz0q", "'kJ8…'"),
        ("http://u:canary@h", r"'http://\*\*\*@h'"),
        ("\x1bx\n", r"'\\x1bx\\n…'"),
    ):
        with pytest.raises(OptionError, match=f"unknown storage option {told} — there are: azure"):
            open_file_io("/wh/t", {name: "="})


def test_storage_options_of_other_stores_are_passed_over() -> None:
    others = {"s3.access-key": "x", "fs.s3a.secret.key": "y", "s3.path.style.access": "true", "azure.sas-token": "z"}
    assert open_file_io("/wh/t", {**others, "external-paths.trust-table": "false"})[1] == "/wh/t"
