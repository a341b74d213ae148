"""Stores that the environment alone names, as "Service-specific endpoints" of AWS documents it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.storage.object_store import ObjectStoreFileIO
from support.effort import sampled
from support.s3_server import ACCESS_KEY, SECRET_KEY, Server, serving
from support.servers import forwarding

pytest.importorskip("moto.server")
ELSEWHERE = "http://127.0.0.1:9"
"""Where nobody listens."""
GLOBAL, OF_S3, IGNORED = "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
PROFILE = "[default]\nregion = us-east-1\n"
SERVICES = "services = local\nendpoint_url = {elsewhere}\n[services local]\ndynamodb =\n  endpoint_url = {elsewhere}\n"


@pytest.fixture(scope="module", params=["moto", "s3proxy", pytest.param("localstack", marks=pytest.mark.long)])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    app = None if request.param == "moto" else forwarding(request.getfixturevalue(request.param))
    with serving(app) as server:
        yield server


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, text in KEYS.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    return tmp_path / ".aws"


CASES: dict[str, tuple[dict[str, str], str]] = {
    # the environment, and ~/.aws/config
    "global": ({GLOBAL: "{here}"}, ""),
    "of s3": ({OF_S3: "{here}"}, ""),
    "http is allowed": ({GLOBAL: "{here}", "AWS_ALLOW_HTTP": "true"}, ""),
    "that of s3 wins": ({GLOBAL: ELSEWHERE, OF_S3: "{here}"}, ""),
    "an empty one is none": ({GLOBAL: "{here}", OF_S3: ""}, ""),
    "a path at its end": ({GLOBAL: "{here}/"}, ""),
    "the profile": ({}, "endpoint_url = {here}\n"),
    "the environment before the profile": ({GLOBAL: "{here}"}, "endpoint_url = {elsewhere}\n"),
    "a service of the profile": ({}, SERVICES + "s3 =\n  endpoint_url = {here}\n"),
    "a service with other settings": ({}, SERVICES + "S3 =\n  region = x\n  endpoint_url={here}\n"),
    "the environment before the service": ({GLOBAL: "{here}"}, SERVICES + "s3 =\n  endpoint_url = {elsewhere}\n"),
    "another profile": ({"AWS_PROFILE": "p"}, "[profile p]\nendpoint_url = {here}\n"),
    "by path, as a variable of object_store says": (
        {GLOBAL: "{here}", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false"},
        "",
    ),
    "its older variable": ({"AWS_ENDPOINT": "{here}"}, ""),
}


def _set(monkeypatch: pytest.MonkeyPatch, home: Path, server: Server, variables: dict[str, str], config: str) -> None:
    places = {"here": server.address, "elsewhere": ELSEWHERE}
    for name, text in variables.items():
        monkeypatch.setenv(name, text.format(**places))
    (home / "config").write_text(PROFILE + config.format(**places))


@pytest.mark.parametrize("case", sampled(CASES, 3))
def test_a_table_by_the_environment_alone(
    case: str, server: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = server.bucket()
    _set(monkeypatch, home, server, *CASES[case])
    table = pp.Table.create(f"{bucket}/db.db/t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2]}))
    assert table.scan().to_arrow()["id"].to_pylist() == [1, 2]
    assert pp.Catalog(bucket).tables("db") == ["t"]
    assert {path.split("/")[1] for _, path in server.requests[-20:]} == {bucket.removeprefix("s3://")}


OVERRIDDEN: dict[str, tuple[dict[str, str], str]] = {
    "global": ({GLOBAL: ELSEWHERE}, ""),
    "of s3": ({OF_S3: ELSEWHERE}, ""),
    "both": ({OF_S3: ELSEWHERE, GLOBAL: ELSEWHERE, "AWS_ENDPOINT": ELSEWHERE}, ""),
    "the profile": ({}, "endpoint_url = {elsewhere}\n"),
    "virtual hosts": ({OF_S3: ELSEWHERE, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}, ""),
    "without http": ({OF_S3: ELSEWHERE, "AWS_ALLOW_HTTP": "false"}, ""),
}


@pytest.mark.parametrize("case", OVERRIDDEN)
def test_options_win(case: str, server: Server, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = server.bucket()
    _set(monkeypatch, home, server, *OVERRIDDEN[case])
    options = {"s3.endpoint": server.address, "s3.path-style-access": "true"}
    table = pp.Table.create(f"{bucket}/db.db/t", pa.schema([("id", pa.int64())]), storage_options=options)
    table.append(pa.table({"id": [1, 2]}))
    assert table.count() == 2
    assert pp.Catalog(bucket, options).tables("db") == ["t"]


@pytest.mark.parametrize("how", ["variable", "profile"])
def test_endpoints_that_are_to_be_ignored(how: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (GLOBAL, OF_S3, "AWS_ENDPOINT"):
        monkeypatch.setenv(name, ELSEWHERE)
    text = "[default]\nregion = eu-west-1\nendpoint_url = http://127.0.0.1:9\n"
    (home / "config").write_text(text + ("ignore_configured_endpoint_urls = true\n" if how == "profile" else ""))
    if how == "variable":
        monkeypatch.setenv(IGNORED, "true")
    assert ObjectStoreFileIO("s3://b/t")._arguments["aws_endpoint_url_s3"] == "https://s3.eu-west-1.amazonaws.com"


def test_without_any_the_clients_find_amazon_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ObjectStoreFileIO("s3://b/t")._arguments
    monkeypatch.setenv(GLOBAL, ELSEWHERE)
    for other in ("gs://b/t", "abfss://c@a.dfs.core.windows.net/t"):
        assert not ObjectStoreFileIO(other)._arguments
