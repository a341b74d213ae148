"""Bring the servers that tests can use beside moto, and Java's drivers for them: ``python tools/servers.py``.

    .cache/servers/*.jar        s3proxy, Hadoop's mini cluster, a Hive metastore; Java's S3 and drivers, by Maven
    .cache/servers/azurite/     Azurite, by npm
    .cache/servers/localstack/  LocalStack, by pip: an environment of its own
    postgresql, mariadb, krb5   Debian's packages, installed where this runs as root; else it says which are missing

fake-gcs-server comes with the environment `newest`. What is there already is left alone. Exits with 1 when anything is
missing at the end: tests that need it are skipped then. Standard library only.
"""

import glob
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HOME = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".cache", "servers")
JARS = {
    "s3proxy.jar": "org.gaul:s3proxy:4.0.0:jar:jar-with-dependencies",
    "paimon-s3.jar": "org.apache.paimon:paimon-s3:1.4.2",
    # What Java's plugins for Google Cloud Storage and Azure are made of; they are themselves on no index.
    "gcs-connector.jar": "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26:jar:shaded",
    "hadoop-azure.jar": "org.apache.hadoop:hadoop-azure:3.4.1",
    "azure-storage.jar": "com.microsoft.azure:azure-storage:7.0.1",
    "hadoop-shaded-guava.jar": "org.apache.hadoop.thirdparty:hadoop-shaded-guava:1.3.0",
    **{f"{name}.jar": f"org.eclipse.jetty:{name}:9.4.53.v20231009" for name in ("jetty-util", "jetty-util-ajax")},
    "sqlite-jdbc.jar": "org.xerial:sqlite-jdbc:3.49.1.0",
    "postgresql.jar": "org.postgresql:postgresql:42.7.4",
    "mariadb.jar": "org.mariadb.jdbc:mariadb-java-client:3.5.3",
    # A Hive metastore; what else it needs is among pyspark's jars, where Hive is older.
    "hive-metastore.jar": "org.apache.hive:hive-standalone-metastore:3.1.3",
    "libthrift.jar": "org.apache.thrift:libthrift:0.9.3",
    "commons-collections.jar": "commons-collections:commons-collections:3.2.2",
    **{f"hadoop-client-{part}.jar": f"org.apache.hadoop:hadoop-client-{part}:3.4.1"
       for part in ("minicluster", "api", "runtime")},
    **{f"{name}.jar": f"org.slf4j:{name}:1.7.36" for name in ("slf4j-api", "slf4j-nop", "jcl-over-slf4j")},
}  # fmt: skip
AZURITE = "azurite@3.35.0"
LOCALSTACK = [
    "localstack-core[base-runtime]==4.4.0",  # later ones need Python 3.12
    "cbor2==5.7.1", "cryptography==44.0.3", "pyopenssl==24.3.0",  # it imports what later ones lack
    "service-identity==24.2.0",  # imported, and not named by it
]  # fmt: skip
GET = "org.apache.maven.plugins:maven-dependency-plugin:2.8:get"
DEBIAN = {
    "postgresql": "/usr/lib/postgresql/*/bin/initdb",
    "mariadb-server-core": "/usr/sbin/mariadbd",
    "mariadb-client-core": "/usr/bin/my_print_defaults",
    "krb5-kdc": "/usr/sbin/krb5kdc",
    "krb5-admin-server": "/usr/sbin/kadmin.local",
    "krb5-user": "/usr/bin/kinit",
}


def run(command):
    """Whether the command is there and succeeds."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


def bring_jar(name, artifact):
    path = os.path.join(HOME, name)
    part = f"{path}.{os.getpid()}"
    if not os.path.exists(path) and run(
        ["mvn", "-q", "-B", GET, "-Dtransitive=false", f"-Dartifact={artifact}", f"-Ddest={part}"]
    ):
        os.replace(part, path)
    return os.path.exists(path)


def bring_azurite():
    home = os.path.join(HOME, "azurite")
    program = os.path.join(home, "node_modules", ".bin", "azurite-blob")
    return os.path.exists(program) or (
        run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", home, AZURITE])
        and os.path.exists(program)
    )


def bring_localstack():
    home = os.path.join(HOME, "localstack")
    python = os.path.join(home, "bin", "python")
    check = [python, "-c", "import localstack.runtime.main, localstack.services.s3.provider"]
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *LOCALSTACK]
    return run(check) or (run([sys.executable, "-m", "venv", "--clear", home]) and run(install) and run(check))


def bring_package(name, sign):
    if not glob.glob(sign) and os.geteuid() == 0:
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", name]
        run(install) or (run(["apt-get", "update", "-qq"]) and run(install))
    return bool(glob.glob(sign))


def main():
    """Bring what Maven, npm, pip and apt-get bring, these four at once."""
    os.makedirs(HOME, exist_ok=True)
    os.environ.setdefault("MAVEN_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # one JVM for each jar
    kinds = [
        lambda: {name: bring_jar(name, artifact) for name, artifact in JARS.items()},
        lambda: {"azurite (npm)": bring_azurite()},
        lambda: {"localstack (pip)": bring_localstack()},
        lambda: {f"{name} (apt-get install {name})": bring_package(name, sign) for name, sign in DEBIAN.items()},
    ]
    with ThreadPoolExecutor() as pool:
        found = {name: there for kind in pool.map(lambda bring: bring(), kinds) for name, there in kind.items()}
    missing = [name for name, there in found.items() if not there]
    print("servers of tests:", "all there" if not missing else f"missing: {', '.join(missing)}", flush=True)
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
