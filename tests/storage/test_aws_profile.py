"""AWS profiles, on an S3 server of this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_pyds.errors import OptionError, StorageError
from paimon_pyds.storage import open_file_io
from paimon_pyds.storage.object_store import ObjectStoreFileIO
from support.s3_server import Server, serving

pytest.importorskip("moto.server")
KEYS = "aws_access_key_id = {0}\naws_secret_access_key = hush-{0}\n"


@pytest.fixture(scope="module")
def one_server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def server(one_server: Server) -> Server:
    one_server.headers.clear()
    return one_server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    return tmp_path / ".aws"


def _signed(server: Server) -> str:
    """The key and region that a request is signed with. Raises StorageError."""
    root, options = server.bucket(), {"s3.endpoint": server.address, "s3.path-style-access": "true"}
    io, _ = open_file_io(root, options)
    assert isinstance(io, ObjectStoreFileIO)
    io.replace(f"{root}/x", b"1")
    assert io.read_bytes(f"{root}/x") == b"1" and "hush" not in repr(io)
    key, _, region, *_ = server.headers[-1]["HTTP_AUTHORIZATION"].partition("Credential=")[2].split("/")
    return f"{key} {region} {server.headers[-1].get('HTTP_X_AMZ_SECURITY_TOKEN', '')}".rstrip()


def test_keys_in_the_files(server: Server, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    (home / "credentials").write_text(f"[default]\n{KEYS.format('one')}[two]\n{KEYS.format('two')}")
    (home / "config").write_text(
        f"[default]\nregion=eu-west-1\n[profile two]\nregion = eu-north-1\n"
        f"[profile three]\n{KEYS.format('three')}aws_session_token = tt\n"
    )
    assert _signed(server) == "one eu-west-1"
    monkeypatch.setenv("AWS_PROFILE", "two")
    assert _signed(server) == "two eu-north-1"
    monkeypatch.setenv("AWS_PROFILE", "three")
    assert _signed(server) == "three us-east-1 tt"
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    assert _signed(server) == "of the environment eu-central-1"


def test_keys_that_a_program_gives(server: Server, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3")
    given = '{"Version": 1, "AccessKeyId": "made", "SecretAccessKey": "hush", "SessionToken": "st"}'
    (home / "keys.json").write_text(given)
    (home / "config").write_text(f"[default]\ncredential_process = cat {home / 'keys.json'}\n")
    assert _signed(server) == "made us-east-1 st"
    (home / "keys.json").write_text(given.replace("made", "renewed"))
    assert _signed(server) == "renewed us-east-1 st"
    monkeypatch.setitem(sys.modules, "obstore.auth.boto3", None)
    root, options = server.bucket(), server.options()
    io, _ = open_file_io(root, {"s3.endpoint": server.address})
    with pytest.raises(OptionError, match=r"profile default need boto3 .*paimon-pyds\[aws\]"):
        io.create_if_absent(f"{root}/s", b"")
    open_file_io(root, options)[0].replace(f"{root}/x", b"1")


@pytest.mark.parametrize("given", [True, False], ids=["keys in options", "a profile"])
def test_keys_of_a_role(server: Server, home: Path, monkeypatch: pytest.MonkeyPatch, given: bool) -> None:
    pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.address)
    (home / "config").write_text(f"[default]\nregion = eu-west-1\n{KEYS.format('other')}")
    role = {"s3.role-arn": "arn:aws:iam::123456789012:role/reader"}
    options = server.options(**role) if given else {"s3.endpoint": server.address, **role}
    root = server.bucket()
    io, _ = open_file_io(root, options)
    assert io.create_if_absent(f"{root}/x", b"1") and io.read_bytes(f"{root}/x") == b"1"
    asked, sent = server.headers[1], server.headers[-1]
    assert f"Credential={'someone' if given else 'other'}/" in asked["HTTP_AUTHORIZATION"]
    assert "Credential=ASIA" in sent["HTTP_AUTHORIZATION"] and sent["HTTP_X_AMZ_SECURITY_TOKEN"]
    monkeypatch.setattr(server, "keys", {"nobody"})
    with pytest.raises(OptionError, match="no keys of the AWS role"):
        open_file_io(f"{root}/other", options)[0].read_bytes(f"{root}/other/x")


def test_profiles_that_are_wrong(server: Server, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3")
    (home / "config").write_text("[profile broken]\ncredential_process = false\n")
    monkeypatch.setenv("AWS_PROFILE", "broken")
    with pytest.raises((OptionError, StorageError), match="credential"):
        _signed(server)
    monkeypatch.setenv("AWS_PROFILE", "none")
    with pytest.raises(OptionError, match="names no profile: none"):
        _signed(server)
    (home / "config").write_text("not a section\n")
    with pytest.raises(OptionError, match="can't read"):
        _signed(server)
