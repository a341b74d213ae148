"""Hive metastores that want TLS, Kerberos, or both: who one is, and what goes wrong."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import OptionError, StorageError
from support import servers

pytest.importorskip("pymetastore")
pytestmark = pytest.mark.long
TLS = {"hive.metastore.use.SSL": "true"}
KERBEROS = {"hive.metastore.sasl.enabled": "true", "hive.metastore.kerberos.principal": "hive/_HOST@TEST"}
KINDS = {
    "tls": (TLS, ""),
    "kerberos with tls": (TLS | KERBEROS, "authentication"),
    "kerberos, encrypted": (KERBEROS, "privacy"),
    "kerberos, signed": (KERBEROS, "integrity"),
}


@pytest.fixture(scope="module", params=KINDS)
def metastore(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Options by which a catalog finds it, and the directory of keys and certificates."""
    wanted, protection = KINDS[request.param]
    home, java = tmp_path_factory.mktemp("secured"), list[str]()
    settings = dict(wanted)
    try:
        with ExitStack() as stack:
            if "hive.metastore.use.SSL" in wanted:
                servers.certificate(home)
                settings |= {
                    "hive.metastore.keystore.path": f"{home}/server.p12",
                    "hive.metastore.keystore.password": servers.PASSWORD,
                }
            if protection:
                stack.enter_context(servers.kerberos(home))
                settings |= {
                    "hadoop.security.authentication": "kerberos",
                    "hadoop.rpc.protection": protection,
                    "hive.metastore.kerberos.keytab.file": f"{home}/hive.keytab",
                    "hive.metastore.kerberos.principal": "hive/localhost@TEST",
                }
                java = [f"-Djava.security.krb5.conf={home}/krb5.conf"]
            uri = stack.enter_context(servers.hive_metastore(settings, java))
            yield {"metastore": "hive", "uri": uri.replace("127.0.0.1", "localhost"), **wanted}, home
    except servers.ServerMissingError as error:
        servers.leave_out(error)


@pytest.fixture
def options(metastore: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found, home = metastore
    monkeypatch.setenv("KRB5_CONFIG", f"{home}/krb5.conf")
    monkeypatch.setenv("KRB5CCNAME", f"{home}/none")
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)
    more = {"hive.metastore.truststore.path": f"{home}/server.pem"} if TLS.items() <= found.items() else {}
    return {**found, **more, "warehouse": str(tmp_path / "wh"), "lock.enabled": "true"}


@pytest.mark.whole
@pytest.mark.parametrize("how", ["ticket", "keytab", "variable"])
def test_who_one_is(metastore: Any, options: dict[str, str], monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    home = metastore[1]
    if "hive.metastore.sasl.enabled" not in options and how != "ticket":
        pytest.skip("nobody has to say so")
    if how == "keytab":
        options["security.kerberos.login.principal"] = "me@TEST"
        options["security.kerberos.login.keytab"] = f"{home}/me.keytab"
    elif how == "variable":
        monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"{home}/me.keytab")
        monkeypatch.setenv("KRB5CCNAME", f"MEMORY:{home}")
    elif "hive.metastore.sasl.enabled" in options:
        kinit = shutil.which("kinit")
        assert kinit is not None
        monkeypatch.setenv("KRB5CCNAME", f"{home}/ticket")
        subprocess.run([kinit, "-kt", f"{home}/me.keytab", "me"], check=True)
    catalog = pp.Catalog.open(options)
    catalog.create_database("shop")
    columns = {f"column_{number}": [number] for number in range(2000)}  # an entry of some length
    catalog.create_table("shop.t", columns)
    catalog.table("shop.t").append(pa.table(columns))
    assert catalog.tables("shop") == ["t"] and catalog.table("shop.t").count() == 2
    client = catalog._backend._client  # type: ignore[attr-defined]
    assert len(client.table("shop", "t").sd.cols) == 2000
    catalog.drop_database("shop", cascade=True)


def test_what_is_missing(metastore: Any, options: dict[str, str], tmp_path: Path) -> None:
    home = metastore[1]
    if "hive.metastore.sasl.enabled" in options:
        with pytest.raises(StorageError, match=r"No credentials were supplied|No Kerberos credentials"):
            pp.Catalog.open(options).databases()
        unknown = {**options, "security.kerberos.login.principal": "you@TEST"}
        with pytest.raises(StorageError, match=r"can't be reached .*credentials"):
            pp.Catalog.open(unknown | {"security.kerberos.login.keytab": f"{home}/me.keytab"}).databases()
        with pytest.raises(OptionError, match="go together"):
            pp.Catalog.open(unknown)
    if "hive.metastore.use.SSL" in options:
        with pytest.raises(StorageError, match="certificate verify failed"):
            pp.Catalog.open({**options, "hive.metastore.truststore.path": ""}).databases()
        with pytest.raises(StorageError, match=r"certificate is not valid for '127\.0\.0\.2'"):
            pp.Catalog.open({**options, "uri": options["uri"].replace("localhost", "127.0.0.2")}).databases()
        with pytest.raises(OptionError, match=r"must be a PEM file.*keytool"):
            pp.Catalog.open({**options, "hive.metastore.truststore.path": f"{home}/server.p12"}).databases()
