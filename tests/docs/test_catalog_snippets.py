"""The snippets of docs/catalogs.md for catalogs of servers run against servers on this machine, and the command line
answers the same query with the same options in the config file.

The page names servers of the reader's: their addresses and secrets are replaced by those here, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from paimon_pyds.cli.main import main
from support.fixtures import ROOT
from support.java_rest_catalog import TOKEN, java_rest_catalog
from support.oracle import requires_java_oracle
from support.s3_server import serving
from support.snippets import run_typed

PAGE = (ROOT / "docs" / "catalogs.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"has a server -->\n```python\n((\w+) = .*?)^```\n```text\n(.*?)^```", re.M | re.S)
BLOCKS = {name: (code, shown) for code, name, shown in _BLOCK.findall(PAGE)}
_QUERY = re.compile(r'\.table\("(.+?)"\)\.count\("(.+?)"\)')
Get = Callable[[str], Any]
Texts = Mapping[str, str]


def _mysql(get: Get, directory: Path, stack: ExitStack) -> Texts:
    pytest.importorskip("pymysql")
    found = get("mariadb")
    password = {'"jdbc.password": "…"': f'"jdbc.password": {json.dumps(found["jdbc.password"])}'}
    return {"jdbc:mysql://db.example.com:3306/paimon": found["uri"], '"me"': json.dumps(found["jdbc.user"]), **password}


def _hive(get: Get, directory: Path, stack: ExitStack) -> Texts:
    pytest.importorskip("pymetastore")
    return {"thrift://metastore.example.com:9083": get("hive_metastore")}


def _glue(get: Get, directory: Path, stack: ExitStack) -> Texts:
    pytest.importorskip("pymetastore")
    server = stack.enter_context(serving())
    region = '"aws.region": "eu-central-1",'
    more = json.dumps({**server.options(), "aws.glue.endpoint": server.address})
    return {"s3://bucket": server.bucket(), region: f"{region} **{more},"}


def _rest(get: Get, directory: Path, stack: ExitStack) -> Texts:
    get("oracle")  # which fetches Java Paimon
    server = stack.enter_context(java_rest_catalog(directory))
    return {"https://paimon.example.com": server.address, '"main"': '"wh"', '"…"': json.dumps(TOKEN)}


def _dlf(get: Get, directory: Path, stack: ExitStack) -> Texts:
    get("oracle")
    key = ("an-id", "hush", "a-session")
    server = stack.enter_context(java_rest_catalog(directory, *key))
    address, secret = '"https://cn-hangzhou-vpc.dlf.aliyuncs.com"', '"dlf.access-key-secret": "…"'
    return {
        address: f'"{server.address}", "dlf.region": "cn-hangzhou"',
        '"main"': '"wh"',
        '-id": "…"': f'-id": "{key[0]}"',
        secret: f'"dlf.access-key-secret": "{key[1]}", "dlf.security-token": "{key[2]}"',
    }


SERVERS = {"mysql": _mysql, "hive": _hive, "glue": _glue, "rest": _rest, "dlf": _dlf}
_JAVA = ("rest", "dlf")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[requires_java_oracle] * (name in _JAVA)) for name in SERVERS]
)
def test_the_first_query(
    name: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, shown = BLOCKS[name]
    with ExitStack() as stack:
        texts = SERVERS[name](request.getfixturevalue, tmp_path, stack)
        for text, own in (*texts.items(), ("s3://bucket/warehouse", f"{tmp_path}/wh")):
            assert text in code or text.startswith("s3:")
            code = code.replace(text, own)
        assert "…" not in code and "example.com" not in code
        names: dict[str, Any] = {"pp": __import__("paimon_pyds")}
        assert str(run_typed(code, names)) == shown.strip()
        catalog = names[name]
        lines = [f"{json.dumps(key)} = {json.dumps(text)}\n" for key, text in catalog._options.items()]
        config = tmp_path / "paimon-pyds.toml"
        config.write_text(f"[catalogs.prod]\n{''.join(lines)}")
        config.chmod(0o600)
        monkeypatch.setenv("PAIMON_PYDS_CONFIG", str(config))
        ((table, condition),) = _QUERY.findall(code)
        assert main(["count", table, "--where", condition, "--catalog", "prod"]) == 0
        assert capsys.readouterr().out == shown
        catalog.drop_database("shop", cascade=True)


def test_every_catalog_of_a_server_is_tried() -> None:
    assert list(BLOCKS) == list(SERVERS) and PAGE.count("has a server -->") == len(SERVERS)
