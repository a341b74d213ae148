"""HDFS that requires Kerberos: by a ticket, by a keytab, by neither."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import StorageError
from paimon_pyds.storage.hdfs import HdfsFileIO
from support import servers

pytestmark = pytest.mark.long
_HDFS = "hdfs/localhost@TEST"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[servers.MiniHdfs, Path]]:
    home = tmp_path_factory.mktemp("kerberos")
    settings = {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "dfs.data.transfer.protection": "authentication",
        "dfs.namenode.keytab.file": f"{home}/hdfs.keytab",
        "dfs.namenode.kerberos.principal": _HDFS,
        "dfs.datanode.keytab.file": f"{home}/hdfs.keytab",
        "dfs.datanode.kerberos.principal": _HDFS,
        "dfs.web.authentication.kerberos.keytab": f"{home}/hdfs.keytab",
        "dfs.web.authentication.kerberos.principal": "HTTP/localhost@TEST",
        "dfs.block.access.token.enable": "true",
        "ignore.secure.ports.for.testing": "true",
        "dfs.permissions.enabled": "false",
    }
    java = [f"-Djava.security.krb5.conf={home}/krb5.conf"]
    try:
        with servers.kerberos(home), servers.mini_hdfs([f"{k}={v}" for k, v in settings.items()], java) as found:
            yield found, home
    except servers.ServerMissingError as error:
        servers.leave_out(error)


@pytest.mark.parametrize("how", ["ticket", "keytab", "neither"])
def test_who_one_is(cluster: tuple[servers.MiniHdfs, Path], monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    hdfs, home = cluster
    path = f"{hdfs.root}/{how}"
    options = hdfs.settings | {
        "hadoop.hadoop.security.authentication": "kerberos",
        "hadoop.dfs.namenode.kerberos.principal": _HDFS,
        "hadoop.dfs.data.transfer.protection": "authentication",
    }
    monkeypatch.setenv("KRB5_CONFIG", f"{home}/krb5.conf")
    monkeypatch.setenv("KRB5CCNAME", f"{home}/{how}")
    if how == "ticket":
        kinit = shutil.which("kinit")
        assert kinit is not None
        subprocess.run([kinit, "-kt", f"{home}/me.keytab", "me"], check=True)
    elif how == "keytab":
        options["security.kerberos.login.principal"] = "me@TEST"
        options["security.kerberos.login.keytab"] = f"{home}/me.keytab"
    else:
        with pytest.raises(StorageError, match=r"No credentials were supplied.*libgssapi_krb5.*kinit"):
            pp.Table.create(path, "a INT", storage_options=options)
        return
    table = pp.Table.create(path, "a INT", storage_options=options)
    table.append(pa.table({"a": pa.array([1], pa.int32())}))
    assert pp.Table.open(path, storage_options=options).scan().to_arrow()["a"].to_pylist() == [1]
    io = HdfsFileIO(path, options)
    assert io._info(f"{path}/schema/schema-0").owner == "me"
    schema = io.read_bytes(f"{path}/schema/schema-0")
    assert io.read_starts([f"{path}/schema/schema-0"] * 3, 10) == [(schema[:10], len(schema))] * 3
