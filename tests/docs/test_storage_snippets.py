"""The snippets of docs/storage.md for stores and HDFS run against servers on this machine.

A page names stores of the reader's: their addresses and secrets are replaced by those of a server, and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support import servers
from support.effort import LONG
from support.fixtures import ROOT
from support.s3_server import ACCESS_KEY, SECRET_KEY, Server, serving
from support.snippets import run_typed

pytest.importorskip("obstore")
pytest.importorskip("moto.server")
STORES = ["Amazon S3", "MinIO and others that speak S3", "Google Cloud Storage", "Azure", "HDFS"]
_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.M | re.S)
_KEYS = {
    '"s3.access-key": "…"': f'"s3.access-key": "{ACCESS_KEY}"',
    '"s3.secret-key": "…"': f'"s3.secret-key": "{SECRET_KEY}"',
    "AWS_ACCESS_KEY_ID=…": f"AWS_ACCESS_KEY_ID={ACCESS_KEY}",
    "AWS_SECRET_ACCESS_KEY=…": f"AWS_SECRET_ACCESS_KEY={SECRET_KEY}",
}


def each(stores: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("store", "name"), [(n, n) for n in stores], ids=stores, indirect=["store"])


@dataclass
class Store:
    """What replaces texts of the page, and what each command is given as well."""

    texts: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)

    def of(self, code: str) -> str:
        for text, own in self.texts.items():
            code = code.replace(text, own)
        assert "…" not in code
        return code


def _s3(server: Server) -> Store:
    bucket = {"my-bucket": server.bucket().removeprefix("s3://")}
    region = {
        "storage = {": f'storage = {{"s3.endpoint": "{server.address}", ',
        "export ": f"export AWS_ENDPOINT_URL_S3={server.address} ",
    }
    return Store({**_KEYS, **bucket, **region})


def _minio(server: Server) -> Store:
    bucket = {"my-bucket": server.bucket().removeprefix("s3://")}
    return Store({**_KEYS, **bucket, "http://localhost:9000": server.address})


def _google(server: Server, fake_gcs: str, directory: Path) -> Store:
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    names = {"private_key_id": "1", "client_email": "someone@example.com", "client_id": "1"}
    file = directory / "key.json"
    file.write_text(json.dumps({"type": "service_account", "private_key": key.decode(), **names}))
    bucket = servers.gcs_bucket(fake_gcs, f"b{uuid.uuid4().hex[:12]}").removeprefix("gs://")
    texts = {
        "my-bucket": bucket,
        "/secrets/key.json": str(file),
        "storage = {": f'storage = {{"gs.endpoint": "{server.address}", ',
    }
    return Store(texts, {"gs.endpoint": server.address})


def _azure(address: str) -> Store:
    container = f"b{uuid.uuid4().hex[:12]}"
    servers.azure_container(address, container)
    texts = {
        "my-container": container,
        "myaccount": servers.AZURE_ACCOUNT,
        '"azure.account-key": "…"': f'"azure.account-key": "{servers.AZURE_KEY}", "azure.endpoint": "{address}"',
        "ACCOUNT_KEY=…": f"ACCOUNT_KEY={servers.AZURE_KEY}",
    }
    return Store(texts, {"azure.endpoint": address})


def _hdfs(cluster: servers.MiniHdfs, directory: Path) -> Store:
    properties = (f"<property><name>{k}</name><value>{v}</value></property>" for k, v in cluster.hadoop.items())
    (directory / "hdfs-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>")
    root = cluster.root.removeprefix("hdfs://")
    return Store({"my-cluster": f"{root}/{uuid.uuid4().hex}", "/etc/hadoop/conf": str(directory)})


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))]:
        monkeypatch.delenv(name)
    if request.param == "Azure":
        yield _azure(request.getfixturevalue("azurite"))
    elif request.param == "HDFS":
        yield _hdfs(request.getfixturevalue("mini_hdfs"), tmp_path)
    elif request.param == "Amazon S3":
        with serving() as server:
            yield _s3(server)
    elif request.param.startswith("MinIO"):
        with serving(servers.forwarding(request.getfixturevalue("s3proxy"))) as server:
            yield _minio(server)
    else:
        fake_gcs = request.getfixturevalue("fake_gcs")
        with serving(servers.google_xml(fake_gcs)) as server:
            yield _google(server, fake_gcs, tmp_path)


def _blocks(name: str) -> list[tuple[str, str, str]]:
    page = (ROOT / "docs" / "storage.md").read_text(encoding="utf-8")
    section = re.split(rf"\n###? {name}\n", page)[1].split("\n#")[0]
    return [(kind, code, shown or "") for kind, code, shown in _BLOCK.findall(section)]


def _commands(code: str, options: Mapping[str, str]) -> str:
    given = " ".join(f"--storage-option '{key}={value}'" for key, value in options.items())
    script = f'paimon-pyds() {{ "{sys.executable}" -m paimon_pyds "$@" {given}; }}\n{code}'
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@each(STORES)
def test_python_and_the_command_line(store: Store, name: str) -> None:
    names: dict[str, Any] = {}
    rows = 0
    for kind, code, shown in _blocks(name):
        if kind == "sh":
            assert int(_commands(store.of(code), store.options)) == rows
        elif "spark." not in code:
            rows = run_typed(store.of(code), names)
            assert str(rows) == shown.strip()
    assert rows == 3


@pytest.mark.spark
@pytest.mark.slow
@each(STORES if LONG else STORES[:1])
def test_spark(store: Store, name: str, spark: Any) -> None:
    names: dict[str, Any] = {"spark": spark}
    blocks = [(code, shown) for kind, code, shown in _blocks(name) if kind == "python"]
    assert any("spark." in code for code, _ in blocks)
    for code, shown in blocks:
        assert str(run_typed(store.of(code), names)) == shown.strip()


def test_no_other_section_is_left_out() -> None:
    page = (ROOT / "docs" / "storage.md").read_text(encoding="utf-8")
    assert re.findall(r"^###? (.+)\n\n<!-- no block", page, re.M) == STORES
    assert page.count("<!-- no block") == len(STORES)
