"""Options of object stores by the names of Paimon, Hadoop and the vendors."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from paimon_pyds.errors import OptionError, StorageError, UnsupportedError
from paimon_pyds.storage import open_file_io, options_of_store, store_options
from paimon_pyds.storage.object_store import ObjectStoreFileIO
from paimon_pyds.storage.store_options import client_arguments
from support.s3_server import serving

AZURE = "abfss://c@acc.dfs.core.windows.net/t"
KEY = "a2V5"
OSS = {
    "fs.oss.endpoint": "oss-cn-hangzhou-internal.aliyuncs.com",
    "fs.oss.accessKeyId": "id",
    "fs.oss.accessKeySecret": "hush",
}
OBS = {"fs.obs.endpoint": "obs.cn-north-4.myhuaweicloud.com", "fs.obs.access.key": "id", "fs.obs.secret.key": "hush"}


@pytest.mark.parametrize(
    ("root", "options", "expected"),
    [
        (
            "s3://b/t",
            {"s3a.access-key": "k", "fs.s3a.session.token": "s"},
            {"access_key_id": "k", "session_token": "s"},
        ),
        ("s3a://b/t", {"fs.s3a.path.style.access": "false"}, {"virtual_hosted_style_request": True}),
        ("gs://b/t", {"fs.gs.project.id": "p", "gs.access-token": "t"}, {"project_id": "p", "bearer_token": "t"}),
        (
            "gs://b/t",
            {
                "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                "fs.gs.auth.service.account.json.keyfile": "/k.json",
                "fs.gs.storage.root.url": "http://h:1",
            },
            {"service_account": "/k.json", "base_url": "http://h:1"},
        ),
        ("gs://b/t", {"gs.auth.type": "UNAUTHENTICATED"}, {"skip_signature": True}),
        (AZURE, {"fs.azure.account.key.acc.dfs.core.windows.net": KEY}, {"account_key": KEY}),
        (
            AZURE,
            {"azure.account.key": KEY, "fs.azure.account.key.other.dfs.core.windows.net": "x"},
            {"account_key": KEY},
        ),
        (AZURE, {"fs.azure.sas.fixed.token.acc.dfs.core.windows.net": "sig"}, {"sas_key": "sig"}),
        (
            AZURE,
            {
                "fs.azure.account.auth.type": "OAuth",
                "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
                "fs.azure.account.oauth2.client.id": "i",
                "fs.azure.account.oauth2.client.secret": "s",
                "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/ten-ant/oauth2/token",
            },
            {"client_id": "i", "client_secret": "s", "tenant_id": "ten-ant"},
        ),
        (
            "oss://b/t",
            {**OSS, "fs.oss.securityToken": "t"},
            {
                "aws_endpoint_url_s3": "https://s3.oss-cn-hangzhou-internal.aliyuncs.com",
                "access_key_id": "id",
                "secret_access_key": "hush",
                "session_token": "t",
                "region": "cn-hangzhou",
                "virtual_hosted_style_request": True,
            },
        ),
        (
            "obs://b/t",
            OBS,
            {
                "aws_endpoint_url_s3": "obs.cn-north-4.myhuaweicloud.com",
                "access_key_id": "id",
                "secret_access_key": "hush",
                "region": "cn-north-4",
                "virtual_hosted_style_request": True,
            },
        ),
    ],
)
def test_names_of_vendors(root: str, options: dict[str, str], expected: dict[str, Any]) -> None:
    own = options_of_store(root, {**options, "s3.region": "of S3"} if not root.startswith("s3") else options)
    assert client_arguments(root, own) == expected
    io, _ = open_file_io(root, options)
    assert type(io) is ObjectStoreFileIO
    assert repr(io) == f"ObjectStoreFileIO({root.partition(':')[0]}://…)"


@pytest.mark.parametrize(
    ("root", "options", "told"),
    [
        ("gs://b/t", {"fs.gs.auth.service.account.json.keyfle": "x"}, "keyfile"),
        ("gs://b/t", {"fs.gs.auth.type": "USER_CREDENTIALS"}, "application_default"),
        (AZURE, {"azure.acount-key": KEY}, "azure.account-key"),
        (AZURE, {"azure.account.key": "hush"[:3]}, "not base64"),
        (AZURE, {"azure.account.key": "a2V=5YQ="}, "not base64"),
        (AZURE, {"fs.azure.account.oauth2.client.endpoint": "https://login/x"}, "oauth2/token"),
        (AZURE, {"fs.azure.account.auth.type": "Custom"}, "sharedkey"),
        ("oss://b/t", {**OSS, "fs.oss.accesKeyId": "x"}, "fs.oss.accesskeyid"),
        ("oss://b/t", {"fs.oss.endpoint": "h"}, "fs.oss.accesskeysecret"),
        ("obs://b/t", {"fs.obs.acces.key": "h"}, "fs.obs.access.key"),
        ("obs://b/t", {}, "fs.obs.endpoint"),
        ("s3://b/t", {"s3.signer-type": "x"}, "s3."),
    ],
)
def test_what_no_store_takes_is_refused_by_a_near_name(root: str, options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told) as caught:
        open_file_io(root, options)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("value", [5, None, True, b"x"])
@pytest.mark.parametrize("name", ["s3.endpoint", "s3.region", "s3.secret-key"])
def test_values_that_are_no_texts(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"storage option {name} must be a text, not a value of type"):
        open_file_io("s3://b/t", {name: value})
    open_file_io("s3://b/t", {"s3.request-timeout": 5, "s3.path-style-access": True})  # type: ignore[dict-item]


def test_keys_of_a_vendors_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("ACCESS_KEY_ID", "id"), ("ACCESS_KEY_SECRET", "hush"), ("SESSION_TOKEN", "of the environment")):
        monkeypatch.setenv(f"OSS_{name}", text)
    found = client_arguments("oss://b/t", {"fs.oss.endpoint": "h"})
    assert (found["access_key_id"], found["session_token"]) == ("id", "of the environment")
    assert "session_token" not in client_arguments("oss://b/t", OSS)


@pytest.mark.parametrize(
    ("root", "options", "told"),
    [
        ("s3://b/t", {"s3.access-key": "hush\n", "s3.secret-key": "s"}, "line break"),
        ("s3://b/t", {"s3.access-key": "a", "s3.secret-key": "s", "s3.session-token": "hush\r\n"}, "line break"),
        ("gs://b/t", {"gs.access-token": "hush\n"}, "line break"),
        ("s3://b/t", {"s3.endpoint": "http://u:hush@h:1"}, r"address of s3\.endpoint"),
        ("s3://b/t", {"s3.region": "r"}, "AWS_SESSION_TOKEN has a line break"),
    ],
)
def test_what_no_header_can_hold(
    monkeypatch: pytest.MonkeyPatch, root: str, options: dict[str, str], told: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "hush\n")
    with pytest.raises(OptionError, match=told) as caught:
        open_file_io(root, options)[0].read_bytes(f"{root}/x")
    assert "hush" not in str(caught.value)


def test_a_panic_of_obstore_is_an_error_of_the_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_options, "check_texts", lambda _: None)
    io, _ = open_file_io("gs://b/t", {"gs.access-token": "hush\n"})
    with pytest.raises(StorageError, match="obstore panicked"):
        io.read_bytes("gs://b/t/x")


def test_keys_of_options_and_a_session_token_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("moto.server")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of other keys")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    with serving() as server:
        root = server.bucket()
        for given, sent in (({}, None), ({"s3.session-token": "mine"}, "mine")):
            io, _ = open_file_io(root, server.options(**given))
            io.replace(f"{root}/x", b"1")
            assert server.headers[-1].get("HTTP_X_AMZ_SECURITY_TOKEN") == sent
        again = pickle.loads(pickle.dumps(io))
        assert again.read_bytes(f"{root}/x") == b"1"


@pytest.mark.parametrize("scheme", ["s3", "oss", "obs"])
def test_a_bucket_within_the_name_of_the_host(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    pytest.importorskip("moto.server")
    with serving() as server:
        server.fail, server.status = (lambda *_: "before"), "403 Forbidden"
        monkeypatch.setenv("http_proxy", server.address)
        keys = {**dict.fromkeys(("fs.oss.accessKeyId", "fs.obs.access.key", "s3.access-key"), "k")}
        keys |= dict.fromkeys(("fs.oss.accessKeySecret", "fs.obs.secret.key", "s3.secret-key"), "s")
        prefix = "s3" if scheme == "s3" else f"fs.{scheme}"
        options = {**keys, f"{prefix}.endpoint": "http://store.test"}
        if scheme == "s3":
            options |= {"s3.path-style-access": "false", "s3.region": "r"}
        io, _ = open_file_io(f"{scheme}://bucket/t", options)
        with pytest.raises(StorageError, match="credentials"):
            io.read_bytes(f"{scheme}://bucket/t/f")
        assert server.headers[-1]["HTTP_HOST"] == "bucket.store.test"
        assert server.requests[-1] == ("GET", "/t/f")


@pytest.mark.parametrize("scheme", ["oss", "obs"])
def test_a_table_of_a_vendors_store_is_written(scheme: str) -> None:
    pytest.importorskip("moto.server")
    import pyarrow as pa

    import paimon_pyds as pp

    with serving() as server:
        root = server.bucket().replace("s3://", f"{scheme}://")
        names = (
            ("endpoint", "accessKeyId", "accessKeySecret")
            if scheme == "oss"
            else ("endpoint", "access.key", "secret.key")
        )
        values = (server.address, "someone", "hush-hush-hush")
        options = {f"fs.{scheme}.{name}": value for name, value in zip(names, values, strict=True)}
        table = pp.Table.create(f"{root}/wh/t", pa.schema([("id", pa.int64())]), storage_options=options)
        table.append(pa.table({"id": [1, 2]}))
        opened = pp.Table.open(f"{root}/wh/t", storage_options=options)
        assert opened.scan(filter="id = 2").to_arrow()["id"].to_pylist() == [2]
        server.conditional = False  # as where the interface for S3 ignores If-None-Match
        other = options | {f"fs.{scheme}.{'securityToken' if scheme == 'oss' else 'session.token'}": "of this test"}
        with pytest.raises(UnsupportedError, match="If-None-Match"):
            pp.Table.create(f"{root}/wh/u", pa.schema([("id", pa.int64())]), storage_options=other)
