"""HdfsFileIO on a cluster of Hadoop with two name nodes, which runs on this machine."""

from __future__ import annotations

import errno
import itertools
import operator
import os
import pickle
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import hdfs_native
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    CorruptFileError,
    MissingFileError,
    OptionError,
    PaimonError,
    StorageError,
)
from paimon_pyds.storage import FileIO, hdfs, open_file_io
from paimon_pyds.storage.hdfs import HdfsFileIO
from paimon_pyds.storage.hdfs_address import address_of
from support.races import at_once
from support.servers import MiniHdfs
from support.victims import error_in_a_fork

_NUMBERS = itertools.count()


@pytest.fixture
def home(mini_hdfs: MiniHdfs) -> str:
    """A new directory's address."""
    return f"{mini_hdfs.root}/storage/{next(_NUMBERS)}"


@pytest.fixture
def io(mini_hdfs: MiniHdfs, home: str) -> HdfsFileIO:
    found, _ = open_file_io(home, mini_hdfs.settings)
    assert isinstance(found, HdfsFileIO)
    return found


def test_reading(io: HdfsFileIO, home: str) -> None:
    assert isinstance(io, FileIO)
    big = os.urandom(2_500_000)  # three blocks
    io.replace(f"{home}/f", b"0123456789")
    io.write_bytes(f"{home}/big", big)
    io.write_bytes(f"{home}/empty", b"")
    assert io.read_bytes(f"{home}/f") == b"0123456789"
    assert io.read_bytes(f"{home}/empty") == b""
    assert io.read_range(f"{home}/f", 2, 3) == b"234"
    assert io.read_ranges(f"{home}/f", [(8, 2), (0, 1), (4, 0)]) == [b"89", b"0", b""]
    assert io.read_ranges(f"{home}/big", [(2_499_999, 1), (0, 2), (1_048_570, 10)]) == [
        big[-1:], big[:2], big[1_048_570:1_048_580],
    ]  # fmt: skip
    assert io.size(f"{home}/f") == 10
    assert io.exists(f"{home}/f")
    assert io.exists(home)
    assert not io.exists(f"{home}/g")
    assert not io.exists(f"{home}/f/below")
    assert io.read_start(f"{home}/f", 4) == (b"0123", 10)
    assert io.read_start(f"{home}/empty", 4) == (b"", 0)
    with io.open_input(f"{home}/f") as file:
        file.seek(7)
        assert file.read() == b"789"
    for offset, length in ((9, 2), (-1, 1), (11, 0)):
        with pytest.raises(CorruptFileError, match="the file has 10"):
            io.read_range(f"{home}/f", offset, length)
    for call in (io.read_bytes, io.size, io.open_input, lambda path: io.read_range(path, 0, 1)):
        with pytest.raises(MissingFileError, match="if it was there a moment ago"):
            call(f"{home}/none")
    with pytest.raises(StorageError, match="a directory is in the way"):
        io.size(home)


def test_a_file_that_was_replaced_is_read_anew(io: HdfsFileIO, home: str) -> None:
    for content in (b"first", b"the second one"):
        io.replace(f"{home}/hint", content)
        assert io.read_bytes(f"{home}/hint") == content
        assert io.read_start(f"{home}/hint", 100)[0] == content
    assert [entry.name for entry in io.list(home)] == ["hint"]


def test_a_range_of_a_file_that_was_replaced_by_a_longer_one(io: HdfsFileIO, home: str) -> None:
    io.replace(f"{home}/f", b"first")
    assert io.read_range(f"{home}/f", 0, 5) == b"first"
    io.counted().replace(f"{home}/f", b"the second one")
    assert io.read_range(f"{home}/f", 4, 10) == b"second one"


@pytest.fixture(params=[5, (1 << 20) + 5], ids=["one block", "two blocks"])
def unreported(request: pytest.FixtureRequest, mini_hdfs: MiniHdfs, io: HdfsFileIO, home: str) -> Iterator[bytes]:
    """The content of a closed file ``f``, of which no data node has reported the last block."""
    data = os.urandom(request.param)
    client, inner = io._at(f"{home}/f")
    writer = client.create(inner, hdfs_native.WriteOptions(**io._write_options))
    writer.write(data)
    mini_hdfs.tell("reports off")
    try:
        writer.close()
        yield data
    finally:
        mini_hdfs.tell("reports on")


def test_a_last_block_is_waited_for(mini_hdfs: MiniHdfs, io: HdfsFileIO, home: str, unreported: bytes) -> None:
    """No file is read as empty or shorter than it is."""
    calls = (
        lambda: io.read_bytes(f"{home}/f"),
        lambda: io.read_start(f"{home}/f", 1 << 21)[0],
        lambda: io.open_input(f"{home}/f").read(),
        lambda: io.read_range(f"{home}/f", 1, len(unreported) - 1),
    )
    with ThreadPoolExecutor(len(calls)) as pool:
        found = [pool.submit(call) for call in calls]
        while io.counts.requests < 2 * len(calls) and not all(data.done() for data in found):
            time.sleep(0.01)
        mini_hdfs.tell("reports on")
        *whole, rest = [data.result() for data in found]
    assert whole == [unreported] * 3
    assert rest == unreported[1:]


def test_a_last_block_that_stays_unreported(
    io: HdfsFileIO, home: str, unreported: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs, "REPORT_SECONDS", 0.05)
    there = len(unreported) - 5
    for call in (
        io.read_bytes,
        io.open_input,
        lambda path: io.read_start(path, 1),
        lambda path: io.read_range(path, 0, 1),
    ):
        with pytest.raises(StorageError, match=rf"not reported the last block yet, {there} of {there + 5} bytes"):
            call(f"{home}/f")
    assert io.size(f"{home}/f") == io.list(home)[0].size == len(unreported)


def test_starts_of_many_files(io: HdfsFileIO, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `read_start` gives, or nothing; each request is counted."""
    monkeypatch.setattr(HdfsFileIO, "requests_at_once", 3)
    contents = {f"{home}/{size}": os.urandom(size) for size in (1, 5, 511, 513, 1000, 1023, (1 << 20) + 1)}
    for path, data in contents.items():
        io.write_bytes(path, data)
    io.write_bytes(f"{home}/empty", b"")
    io.write_bytes(f"{home}/block", bytes(512))  # it may have another block that is not reported
    without = [f"{home}/none", f"{home}/empty", f"{home}/block", home]
    fresh = io.counted()
    found = fresh.read_starts([*contents, *without, *contents], 1000)
    expected = [(data[:1000], len(data)) for data in contents.values()]
    assert found == [*expected, *[None] * len(without), *expected]
    assert fresh.counts.requests == 2 * 2 * len(contents) + len(without)
    assert fresh.counts.bytes == 2 * sum(len(data) for data, _ in expected)
    assert fresh.read_starts([], 1000) == []
    assert [fresh.read_start(path, 1000) for path in contents] == expected


def test_starts_of_files_that_were_replaced_by_longer_ones(io: HdfsFileIO, home: str) -> None:
    paths = [f"{home}/{number}" for number in range(3)]
    for path in paths:
        io.replace(path, b"first")
        assert io.read_range(path, 0, 5) == b"first"
        io.counted().replace(path, b"the second one")
    assert io.read_starts(paths, 6) == [(b"the se", 14)] * 3
    assert [io.read_range(path, 4, 6) for path in paths] == [b"second"] * 3


def test_no_start_of_a_file_whose_last_block_is_unreported(
    mini_hdfs: MiniHdfs, io: HdfsFileIO, home: str, unreported: bytes
) -> None:
    assert io.read_starts([f"{home}/f"] * 2, 1 << 21) == [None, None]
    mini_hdfs.tell("reports on")
    assert io.read_start(f"{home}/f", 1 << 21) == (unreported, len(unreported))
    assert io.read_starts([f"{home}/f"], 1 << 21) == [(unreported, len(unreported))]


def test_starts_that_fail(io: HdfsFileIO, home: str) -> None:
    """Of one file, by an error or a panic: the others are read."""
    paths = [f"{home}/{number}" for number in range(5)]
    for path in paths:
        io.write_bytes(path, path.encode())
    io.read_starts(paths, 100)
    real = io._async_client
    assert real is not None

    class Panic(BaseException):
        pass

    class Short:
        def __len__(self) -> int:
            return 10

        async def read_range(self, offset: int, length: int) -> bytes:
            return b"short"

    class Failing:
        async def read(self, path: str) -> Any:
            if path.endswith("1"):
                raise OSError("a data node failed")
            if path.endswith("2"):
                raise Panic
            return Short() if path.endswith("3") else await real.read(path)

    io._async_client = Failing()  # type: ignore[assignment]
    sound = [(path.encode(), len(path)) for path in paths]
    assert io.read_starts(paths, 100) == [sound[0], None, None, None, sound[4]]
    io._async_client = real
    assert io.read_starts(paths, 100) == sound


def test_starts_in_threads_and_not_in_a_forked_process(io: HdfsFileIO, home: str) -> None:
    io.write_bytes(f"{home}/f", b"content")
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: io.read_starts([f"{home}/f"] * 10, 3), range(8))
        assert list(found) == [[(b"con", 7)] * 10] * 8
    assert "spawn" in error_in_a_fork(lambda: io.read_starts([f"{home}/f"], 3))


def test_tables_share_clients_of_both_kinds(mini_hdfs: MiniHdfs, home: str) -> None:
    def clients(path: str, **more: str) -> tuple[object, object]:
        found = HdfsFileIO(path, mini_hdfs.settings | more)
        found.read_starts([f"{home}/none"], 1)
        return found._connected(), found._async_client

    first = clients(f"{home}/a")
    assert isinstance(first[0], hdfs_native.Client) and isinstance(first[1], hdfs_native.AsyncClient)
    assert all(map(operator.is_, clients(f"{home}/b"), first))
    others = clients(f"{home}/b", **{"hadoop.dfs.client.failover.max.attempts": "3"})
    assert not any(map(operator.is_, others, first))


def test_listing(io: HdfsFileIO, home: str) -> None:
    begun = time.time() * 1000
    io.make_dir(f"{home}/p=a%20b c/é")
    io.make_dir(f"{home}/p=a%20b c/é")
    io.write_bytes(f"{home}/b", b"22")
    io.write_bytes(f"{home}/a", b"1")
    entries = io.list(home)
    assert [(e.path, e.name, e.size, e.is_dir) for e in entries] == [
        (f"{home}/a", "a", 1, False),
        (f"{home}/b", "b", 2, False),
        (f"{home}/p=a%20b c", "p=a%20b c", 0, True),
    ]
    assert all(begun - 60_000 < e.modified_ms < begun + 60_000 for e in entries)
    assert [e.name for e in io.list(f"{home}/p=a%20b c")] == ["é"]
    assert io.list(f"{home}/none") == io.list(f"{home}/a") == io.list(f"{home}/a/below") == []


def test_writing_and_removing(io: HdfsFileIO, home: str) -> None:
    output = io.open_output(f"{home}/deep/down/o")
    pq.write_table(pa.table({"a": range(1000)}), output.sink)
    size = output.tell()
    assert output.close() == io.size(f"{home}/deep/down/o") == size
    with io.open_input(f"{home}/deep/down/o") as file:
        assert pq.read_table(file)["a"].to_pylist() == list(range(1000))
    aborted = io.open_output(f"{home}/p")
    aborted.sink.write(b"y")
    aborted.abort()
    assert not io.exists(f"{home}/p")
    with pytest.raises(StorageError, match="exists"):
        io.write_bytes(f"{home}/deep/down/o", b"x")
    second = io.open_output(f"{home}/deep/down/o")
    second.sink.write(b"x")
    with pytest.raises(StorageError, match="another writer made it"):
        second.close()
    assert io.size(f"{home}/deep/down/o") == size
    assert not io.remove_empty_dir(f"{home}/deep")
    assert not io.remove_empty_dir(f"{home}/deep/down/o")
    assert not io.remove_empty_dir(f"{home}/none")
    io.delete([f"{home}/deep/down/o", f"{home}/none"])
    assert io.remove_empty_dir(f"{home}/deep/down")
    assert not io.exists(f"{home}/deep/down")
    io.write_bytes(f"{home}/tree/a/b", b"x")
    io.delete_tree(f"{home}/tree")
    io.delete_tree(f"{home}/tree")
    assert [entry.name for entry in io.list(home)] == ["deep"]


def test_renaming(io: HdfsFileIO, home: str) -> None:
    io.write_bytes(f"{home}/t/f", b"x")
    io.make_dir(f"{home}/u")
    with pytest.raises(AlreadyExistsError):
        io.rename(f"{home}/t", f"{home}/u")
    io.rename(f"{home}/t", f"{home}/v")
    assert io.read_bytes(f"{home}/v/f") == b"x"
    with pytest.raises(MissingFileError):
        io.rename(f"{home}/t", f"{home}/w")


def test_one_of_many_rivals_creates_a_file(io: HdfsFileIO, home: str) -> None:
    def create(who: int) -> list[int]:
        return [n for n in range(10) if io.create_if_absent(f"{home}/snapshot-{n}", f"writer {who}".encode() * 100)]

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(create, range(4)))
    assert sorted(n for numbers in won for n in numbers) == list(range(10))
    for who, numbers in enumerate(won):
        for n in numbers:
            assert io.read_bytes(f"{home}/snapshot-{n}") == f"writer {who}".encode() * 100
    assert len(io.list(home)) == 10


def test_it_pickles_and_needs_no_settings_elsewhere(io: HdfsFileIO, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    io.write_bytes(f"{home}/f", b"x")
    assert io == io.counted()
    assert hash(io) == hash(io.counted())
    assert io != HdfsFileIO(home, {"hdfs.replication": "1"})
    packed = pickle.dumps(io)
    monkeypatch.setenv("HADOOP_CONF_DIR", "/nowhere")
    again = pickle.loads(packed)
    assert again.read_bytes(f"{home}/f") == b"x"


# ------------------------------------------------------------------------------------------------------------ settings


def _site(directory: Any, name: str, settings: dict[str, str], more: str = "") -> None:
    properties = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items()
    )
    text = f'<configuration xmlns:xi="http://www.w3.org/2001/XInclude">{properties}{more}</configuration>'
    (directory / name).write_text(text)


@pytest.mark.parametrize("how", ["option", "environment", "home", "default", "variables"])
def test_settings_are_found_as_java_finds_them(
    mini_hdfs: MiniHdfs, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    directory, options, root = tmp_path, {}, "hdfs://minis"
    if how == "home":
        directory = tmp_path / "etc" / "hadoop"
        directory.mkdir(parents=True)
        monkeypatch.setenv("HADOOP_HOME", str(tmp_path))
    elif how == "environment":
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    else:
        options = {"hadoop-conf-dir": str(tmp_path)}
    settings, more = dict(mini_hdfs.hadoop), ""
    if how == "variables":
        address = settings.pop("dfs.namenode.rpc-address.minis.nn1")
        monkeypatch.setenv("NAME_NODE", address)
        _site(
            directory, "more.xml", {"our.node": "${env.NAME_NODE}", "dfs.namenode.rpc-address.minis.nn1": "${our.node}"}
        )
        more = '<xi:include href="more.xml"/>'
    _site(directory, "hdfs-site.xml", settings, more)
    _site(directory, "core-site.xml", {"fs.defaultFS": "hdfs://minis/", "some.password": "hush"})
    if how == "default":
        root = "hdfs:"
    found, path = open_file_io(f"{root}/storage/settings-{how}", options)
    found.write_bytes(f"{path}/f", b"x")
    assert found.read_bytes(f"{path}/f") == b"x"
    assert b"hush" not in pickle.dumps(found)
    assert HdfsFileIO(path, {"hadoop-conf-loader": "option"})._settings == {}


def test_names_of_options_that_spark_wrote_in_lower_case(mini_hdfs: MiniHdfs) -> None:
    address = f"127.0.0.1:{mini_hdfs.ports[0]}"
    options = {"dfs.nameservices": "Prod", "dfs.ha.namenodes.Prod": "A,B", "fs.defaultFS": "hdfs://Prod"}
    options |= {f"dfs.namenode.rpc-address.Prod.{node}": address for node in "AB"}
    found, path = open_file_io("hdfs:///storage/cases", {f"hadoop.{k}".lower(): v for k, v in options.items()})
    found.write_bytes(f"{path}/f", b"x")
    assert open_file_io("hdfs://Prod/storage/cases", {f"hadoop.{k}": v for k, v in options.items()})[0].exists(
        "hdfs://Prod/storage/cases/f"
    )


def test_single_options_win_over_files(mini_hdfs: MiniHdfs, tmp_path: Any, home: str) -> None:
    _site(tmp_path, "hdfs-site.xml", mini_hdfs.hadoop | {"dfs.namenode.rpc-address.minis.nn1": "127.0.0.1:1"})
    found = HdfsFileIO(home, {"hadoop-conf-dir": str(tmp_path), **mini_hdfs.settings})
    found.write_bytes(f"{home}/f", b"x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hadoop-conf-dir": "/nowhere"}, "no directory of this machine"),
        ({"hadoop-conf-loader": "some"}, "all, env or option"),
        ({"hdfs.replication": "none"}, "whole number"),
        ({"hadoop.fs.permissions.umask-mode": "9"}, "umask-mode"),
        ({"hadoop.dfs.blocksize": "much"}, "much"),
        ({"hdfs.usr": "me"}, "hdfs.user"),
        ({"hadoop.fs.defaultFS": "hdfs://a\nb"}, "control character"),
    ],
)
def test_options_that_are_wrong(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        open_file_io("hdfs://h:1/t", options)


def test_addresses_that_name_no_node(home: str) -> None:
    with pytest.raises(OptionError, match=r"hadoop\.fs\.defaultFS"):
        HdfsFileIO("hdfs:///t", {"hadoop-conf-loader": "option"}).exists("hdfs:///t")
    with pytest.raises(OptionError, match="keytab is no file"):
        HdfsFileIO("hdfs://h:1/t", {"security.kerberos.login.keytab": "/nowhere"}).exists("hdfs://h:1/t")
    with pytest.raises(OptionError, match=r"hdfs\.user is not for clusters with Kerberos.*principal"):
        HdfsFileIO("hdfs://h/t", {"hadoop.hadoop.security.authentication": "Kerberos", "hdfs.user": "me"}).exists(
            "hdfs://h/t"
        )
    assert address_of("hdfs://h/t", {}) == "hdfs://h:8020"


def test_a_name_that_nothing_has(mini_hdfs: MiniHdfs) -> None:
    with pytest.raises(StorageError, match=r"no host is called other\.invalid.*are: minis.*hadoop-conf-dir") as caught:
        HdfsFileIO("hdfs://other.invalid/t", mini_hdfs.settings).exists("hdfs://other.invalid/t")
    assert "\n" not in str(caught.value)


def test_viewfs(mini_hdfs: MiniHdfs, io: HdfsFileIO, home: str) -> None:
    mounts = {
        "hadoop.fs.viewfs.mounttable.views.link./data": home,
        "hadoop.fs.viewfs.mounttable.views.link./other": f"hdfs://127.0.0.1:{mini_hdfs.ports[0]}/storage/other",
    }
    view, path = open_file_io("viewfs://views/data/t", mini_hdfs.settings | mounts)
    view.write_bytes(f"{path}/f", b"x")
    assert io.read_bytes(f"{home}/t/f") == b"x"
    assert [entry.path for entry in view.list(path)] == ["viewfs://views/data/t/f"]
    with pytest.raises(OptionError, match=r"no mount of viewfs holds this path.*/data, /other"):
        view.write_bytes("viewfs://views/elsewhere/f", b"x")
    table = pp.Table.create("viewfs://views/data/table", "a INT", storage_options=mini_hdfs.settings | mounts)
    table.append(pa.table({"a": pa.array([1], pa.int32())}))
    assert pp.Table.open(f"{home}/table", storage_options=mini_hdfs.settings).scan().to_arrow()["a"].to_pylist() == [1]


def test_modes_of_new_files_and_directories(mini_hdfs: MiniHdfs, home: str) -> None:
    for umask, file, directory in (("002", 0o664, 0o775), ("u=rwx,g=rx,o=", 0o640, 0o750)):
        found = HdfsFileIO(
            home, mini_hdfs.settings | {"hadoop.fs.permissions.umask-mode": umask, "hdfs.replication": "1"}
        )
        found.make_dir(f"{home}/{umask}")
        found.write_bytes(f"{home}/{umask}/f", b"x")
        assert found._info(f"{home}/{umask}/f").permission == file
        assert found._info(f"{home}/{umask}/f").replication == 1
        assert found._info(f"{home}/{umask}").permission == directory


# -------------------------------------------------------------------------------------------------------------- errors


def _inner(path: str) -> str:
    return "/" + path.split("/", 3)[3]


def say_what_bob_may(home: str, settings: dict[str, str], say: Connection) -> None:
    """The errors of bob, who may write nothing, and of carol after him, in a process of its own."""
    bob = HdfsFileIO(home, settings | {"hdfs.user": "bob"})
    found = list[tuple[str, int | None]]()
    for call in (
        lambda: bob.create_if_absent(f"{home}/s", b"x"),
        lambda: bob.make_dir(f"{home}/d"),
        lambda: bob.delete_tree(home),
        lambda: HdfsFileIO(home, settings | {"hdfs.user": "carol"}).exists(home),
    ):
        try:
            call()
        except PaimonError as error:
            found.append((str(pickle.loads(pickle.dumps(error))), getattr(error, "errno", None)))
    os.environ["HADOOP_USER_NAME"] = "dave"
    try:
        HdfsFileIO(home, settings).exists(home)
    except OptionError as error:
        found.append((str(error), None))
    say.send(found)


def test_permissions(mini_hdfs: MiniHdfs, io: HdfsFileIO, home: str) -> None:
    io.write_bytes(f"{home}/f", b"x")
    io.delete([f"{home}/f"])  # by the superuser
    ((*denied, carol, dave),) = at_once(say_what_bob_may, [(home, mini_hdfs.settings)])
    assert len(denied) == 3
    for text, number in denied:
        assert re.search(r"Permission denied: user=bob, access=.*HADOOP_USER_NAME", text), text
        assert number == errno.EACCES
        assert "\n" not in text
    assert "hdfs.user is 'carol', and this process acts as 'bob'" in carol[0]
    assert "HADOOP_USER_NAME is 'dave', and this process acts as 'bob'" in dave[0]
    assert io.list(home) == []
    with pytest.raises(OptionError, match=r"hdfs\.user is 'bob', and this process acts as .*before its first table"):
        HdfsFileIO(home, mini_hdfs.settings | {"hdfs.user": "bob"}).exists(home)


def test_a_ticket_of_nobody(mini_hdfs: MiniHdfs, home: str) -> None:
    options = mini_hdfs.settings | {"hdfs.kerberos-ticket": "/nowhere"}
    with pytest.raises(StorageError, match=r"connect to: Kerberos principal.*kinit.*login\.keytab"):
        HdfsFileIO(home, options).exists(home)


def test_quotas(mini_hdfs: MiniHdfs, io: HdfsFileIO, home: str) -> None:
    io.make_dir(home)
    try:
        mini_hdfs.tell(f"quota {_inner(home)} 2 -1")
        io.write_bytes(f"{home}/a", b"x")
        for call in (lambda: io.create_if_absent(f"{home}/s", b"x"), lambda: io.make_dir(f"{home}/d")):
            with pytest.raises(StorageError, match=r"quota.*is exceeded.*-setQuota") as caught:
                call()
            assert caught.value.errno == errno.EDQUOT
        mini_hdfs.tell(f"quota {_inner(home)} -1 3000000")
        output = io.open_output(f"{home}/big")
        output.sink.write(bytes(4_000_000))
        with pytest.raises(StorageError, match=r"(?s)quota.*is exceeded.*-setSpaceQuota"):
            output.close()
        assert [entry.name for entry in io.list(home)] == ["a"]
    finally:
        mini_hdfs.tell(f"quota {_inner(home)} -1 -1")


def test_safe_mode(mini_hdfs: MiniHdfs, io: HdfsFileIO, home: str) -> None:
    io.write_bytes(f"{home}/f", b"x")
    mini_hdfs.tell("safemode on")
    try:
        for call in (
            lambda: io.create_if_absent(f"{home}/s", b"x"),
            lambda: io.replace(f"{home}/r", b"x"),
            lambda: io.delete([f"{home}/f"]),
            lambda: io.rename(f"{home}/f", f"{home}/g"),
        ):
            with pytest.raises(StorageError, match=r"safe mode.*-safemode get"):
                call()
        assert io.read_bytes(f"{home}/f") == b"x"
    finally:
        mini_hdfs.tell("safemode off")
    assert [entry.name for entry in io.list(home)] == ["f"]


def test_damaged_blocks(mini_hdfs: MiniHdfs, io: HdfsFileIO, home: str) -> None:
    io.write_bytes(f"{home}/f", os.urandom(5000))
    mini_hdfs.tell(f"damage {_inner(home)}/f")
    with pytest.raises(StorageError, match=r"can't read.*hdfs fsck"):
        io.read_bytes(f"{home}/f")


def test_a_name_node_that_fails_over(mini_hdfs: MiniHdfs, io: HdfsFileIO, home: str) -> None:
    """Nothing is lost, and readers and writers wait while no name node is active."""
    io.write_bytes(f"{home}/f", b"x")
    mini_hdfs.tell("standby")
    later = threading.Timer(1, mini_hdfs.tell, ("active 1",))
    later.start()
    try:
        assert io.create_if_absent(f"{home}/s", b"mine")
    finally:
        later.join()
    try:
        assert not io.create_if_absent(f"{home}/s", b"another")
        assert io.read_bytes(f"{home}/s") == b"mine"
        output = io.open_output(f"{home}/big")
        output.sink.write(bytes(2_000_000))
    finally:
        mini_hdfs.tell("active 0")
    assert output.close() == io.size(f"{home}/big") == 2_000_000
    assert [entry.name for entry in io.list(home)] == ["big", "f", "s"]


def test_no_active_name_node(mini_hdfs: MiniHdfs, home: str) -> None:
    quick = {"hadoop.dfs.client.failover.max.attempts": "1", "hadoop.dfs.client.failover.sleep.max.millis": "10"}
    found = HdfsFileIO(home, mini_hdfs.settings | quick)
    mini_hdfs.tell("standby")
    try:
        with pytest.raises(StorageError, match=r"standby.*no name node is active") as caught:
            found.create_if_absent(f"{home}/s", b"x")
        assert not isinstance(caught.value, CommitOutcomeUnknownError)
    finally:
        mini_hdfs.tell("active 0")
    assert found.list(home) == []


def test_no_name_node_at_all() -> None:
    quick = {"hadoop.dfs.client.failover.max.attempts": "1", "hadoop.dfs.client.failover.sleep.max.millis": "10"}
    with pytest.raises(
        StorageError, match=r"the name node can't be reached: Connection refused — .*check the address"
    ) as caught:
        HdfsFileIO("hdfs://127.0.0.1:1/t", quick).exists("hdfs://127.0.0.1:1/t")
    assert caught.value.errno == errno.ETIMEDOUT


# ------------------------------------------------------------------------------- answers to a rename that are lost


class _Answers:
    """A client of which the answers to `rename` are lost, after the rename or before it, and ``then`` happens."""

    def __init__(self, client: hdfs_native.Client, effect: bool, then: Callable[[], object], times: int = 1) -> None:
        self._client, self._effect, self._then, self._left = client, effect, then, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def rename(self, source: str, target: str, overwrite: bool) -> None:
        if not self._left:
            return self._client.rename(source, target, overwrite)
        self._left -= 1
        if self._effect:
            self._client.rename(source, target, overwrite)
        self._then()
        raise OSError("RPC listener disconnected")


@pytest.mark.parametrize("effect", [False, True])
@pytest.mark.parametrize("times", [1, 9])
def test_an_answer_that_is_lost(io: HdfsFileIO, home: str, effect: bool, times: int) -> None:
    """It was created, or it was not: no more is said than is so, and no other file is left."""
    io.make_dir(home)
    real = io._connected()
    io._client = _Answers(real, effect, lambda: None, times)  # type: ignore[assignment]
    if times == 9 and not effect:
        with pytest.raises(StorageError, match="RPC listener disconnected") as caught:
            io.create_if_absent(f"{home}/snapshot-1", b"ours")
        assert not isinstance(caught.value, CommitOutcomeUnknownError)
        assert io.list(home) == []
    else:
        assert io.create_if_absent(f"{home}/snapshot-1", b"ours")
        assert [entry.name for entry in io.list(home)] == ["snapshot-1"]
    io._client = real


def test_another_was_faster_while_an_answer_was_lost(io: HdfsFileIO, home: str) -> None:
    io.make_dir(home)
    real = io._connected()
    other = io.counted()
    io._client = _Answers(real, False, lambda: other.write_bytes(f"{home}/snapshot-1", b"theirs"))  # type: ignore[assignment]
    assert not io.create_if_absent(f"{home}/snapshot-1", b"ours")
    assert io.read_bytes(f"{home}/snapshot-1") == b"theirs"
    assert [entry.name for entry in io.list(home)] == ["snapshot-1"]


def test_nobody_says_what_became_of_it(io: HdfsFileIO, home: str) -> None:
    io.make_dir(home)
    real = io._connected()

    def vanish() -> None:
        class Gone:
            def __getattr__(self, name: str) -> Any:
                raise OSError("connection refused")

        io._client = Gone()  # type: ignore[assignment]

    io._client = _Answers(real, True, vanish)  # type: ignore[assignment]
    with pytest.raises(CommitOutcomeUnknownError, match=r"did not say whether snapshot-1 was created"):
        io.create_if_absent(f"{home}/snapshot-1", b"ours")
    io._client = real
    assert io.read_bytes(f"{home}/snapshot-1") == b"ours"


def test_the_table_was_dropped_meanwhile(io: HdfsFileIO, home: str) -> None:
    io.make_dir(home)
    real = io._connected()
    other = io.counted()
    io._client = _Answers(real, False, lambda: other.delete_tree(home))  # type: ignore[assignment]
    with pytest.raises(StorageError):
        io.create_if_absent(f"{home}/snapshot-1", b"ours")
    assert not io.exists(home)


def test_what_is_in_use_is_read_after_blocks_have_moved(io: HdfsFileIO, home: str) -> None:
    io.write_bytes(f"{home}/f", b"0123456789")
    assert io.read_range(f"{home}/f", 0, 2) == b"01"

    class Moved:
        def __len__(self) -> int:
            return 10

        def read_range(self, offset: int, length: int) -> bytes:
            raise RuntimeError('RPCError("InvalidToken", "expired")')

    io._readers[f"{home}/f"] = Moved()  # type: ignore[assignment]
    assert io.read_range(f"{home}/f", 2, 3) == b"234"


def test_a_file_is_removed_while_another_thread_opens_it() -> None:
    path = "hdfs://h:1/t/f"

    class Client:
        def delete(self, path: str, recursive: bool) -> bool:
            return True

    class Readers(OrderedDict[str, Any]):
        """Another thread removes the file as soon as it was found."""

        def get(self, key: str, default: Any = None) -> Any:
            found = super().get(key, default)
            removes.start()
            removes.join(0.5)
            return found

    io = HdfsFileIO(path)
    io._client = Client()  # type: ignore[assignment]
    io._readers = Readers({path: "the reader"})
    removes = threading.Thread(target=io.delete, args=([path],))
    assert io._open(path) == "the reader"
    removes.join()
    assert not io._readers
