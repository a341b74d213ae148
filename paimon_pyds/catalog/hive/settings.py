"""Settings of a Hive catalog: its options, over those of ``hive-site.xml`` and ``core-site.xml``.

(Source: Java Paimon 1.4, classes HiveCatalog, HiveCatalogOptions and CatalogOptions; Hive 3.1, class MetastoreConf.)
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paimon_pyds.base.options.option import Kind, parse_duration_ms, parse_value
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import RedactedDict, redact
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.storage import options_of_store
from paimon_pyds.storage.hadoop_files import properties_of, substituted

REGION, ENDPOINT, CATALOG_ID = "aws.region", "aws.glue.endpoint", "hive.metastore.glue.catalogid"
"""Options for AWS Glue, by the names of its client for Java."""
_SEPARATOR = "aws.glue.catalog.separator"
NAMES = (
    "metastore", "warehouse", "uri", "hive-conf-dir", "hadoop-conf-dir", "location-in-properties", "table.type",
    "sync-all-properties", "format-table.enabled", "lock.enabled", "lock-acquire-timeout", "lock-check-max-sleep",
    "lock.type", "metastore.client.class", "client-pool-size", "client-pool-cache.eviction-interval-ms",
    "client-pool-cache.keys", "case-sensitive", REGION, ENDPOINT, _SEPARATOR,
)  # fmt: skip
"""The options of a Hive catalog, besides those of Hive itself (``hive.…``) and of the storage."""
PREFIXES = ("hive.",)
_HADOOP = "hadoop-conf-dir"
_GLUE_CLIENT = "com.amazonaws.glue.catalog.metastore.AWSCatalogMetastoreClient"
_PLAIN_CLIENT = "org.apache.hadoop.hive.metastore.HiveMetaStoreClient"
_PRINCIPAL = "hive-metastore/_HOST@EXAMPLE.COM"
_DEFAULT_PORT = 9083
_TIME = re.compile(r"\s*(\d+)\s*([a-z]*)\s*")
_TIMEOUT = "hive.metastore.client.socket.timeout"
_REFUSED = {
    "hive.metastore.client.thrift.transport.mode": ("http", "HTTP"),
    "hive.metastore.client.auth.mode": ("plain", "a password"),
}
"""How a metastore may want to be connected to that is not supported: the setting, its value, and what it means."""


@dataclass(frozen=True, slots=True)
class HiveSettings:
    """What a Hive catalog goes by.

    ``addresses``: hosts and ports of the metastore. ``lock``: None where the default decides, which depends on the
    warehouse. ``waits``: seconds for which a lock is waited for, and between two looks at most. ``timeout``: seconds
    for which a response is waited for. ``sends_user``: whether the metastore gets the name of the user. ``glue``:
    options for AWS Glue in place of a metastore, those of S3 included; None for a metastore. ``principal``: the
    metastore's, where it wants Kerberos; ``keytab``: the own principal and the file of its keys. ``tls``: the file of
    certificates, empty for the system's, where it wants TLS.
    """

    addresses: tuple[tuple[str, int], ...]
    warehouse: str
    in_properties: bool
    external: bool
    all_properties: bool
    format_tables: bool
    lock: bool | None
    waits: tuple[float, float]
    timeout: float
    batch: int
    sends_user: bool
    framed: bool
    compact: bool
    glue: Mapping[str, str] | None = None
    principal: str | None = None
    keytab: tuple[str, str] | None = None
    tls: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> HiveSettings:
        """The settings that the options of a catalog make. Raises OptionError, UnsupportedError."""
        found = {**_settings_of(options), **{key: text for key, text in options.items() if key != "uri"}}
        if options.get("uri"):
            found["hive.metastore.uris"] = options["uri"]
        _check(found)
        lowered = {name.lower(): text for name, text in found.items()}  # as Spark gives names of options
        of_glue = found.get("metastore.client.class") == _GLUE_CLIENT

        def flag(name: str, default: str) -> bool:
            return bool(parse_value(name, Kind.BOOLEAN, lowered.get(name.lower(), default)))

        kerberos = flag("hive.metastore.sasl.enabled", "false")
        own = tuple(options.get(f"security.kerberos.login.{name}", "") for name in ("principal", "keytab"))
        if kerberos and any(own) and not all(own):
            raise OptionError("security.kerberos.login.principal and security.kerberos.login.keytab go together")
        kind = found.get("table.type", "managed").strip().lower()
        if kind not in ("managed", "external"):
            raise OptionError(f"table.type must be managed or external, not {kind!r:.40}")
        waits = (("lock-acquire-timeout", "8 min"), ("lock-check-max-sleep", "8 s"))
        timeout, longest = (parse_duration_ms(found.get(name, text), name) / 1000 for name, text in waits)
        return cls(
            addresses=() if of_glue else _addresses(found.get("hive.metastore.uris", "")),
            warehouse=_warehouse(options, found),
            in_properties=flag("location-in-properties", "false"),
            external=kind == "external",
            all_properties=flag("sync-all-properties", "true"),
            format_tables=flag("format-table.enabled", "true"),
            lock=flag("lock.enabled", "") if "lock.enabled" in found else False if of_glue else None,
            waits=(timeout, longest),
            timeout=seconds_of(_TIMEOUT, found.get(_TIMEOUT, "600s")),
            batch=max(1, int(parse_value("", Kind.INT, found.get("hive.metastore.batch.retrieve.max", "300")))),
            sends_user=flag("hive.metastore.execute.setugi", "true") and not kerberos,
            framed=flag("hive.metastore.thrift.framed.transport.enabled", "false"),
            compact=flag("hive.metastore.thrift.compact.protocol.enabled", "false"),
            principal=lowered.get("hive.metastore.kerberos.principal", _PRINCIPAL) if kerberos else None,
            keytab=(own[0], own[1]) if kerberos and all(own) else None,
            tls=lowered.get("hive.metastore.truststore.path", "") if flag("hive.metastore.use.SSL", "false") else None,
            glue=_of_glue(options, found) if of_glue else None,
        )


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a catalog that are those of its storage."""
    own = set(NAMES) - {_HADOOP}
    return {key: text for key, text in options.items() if key not in own and not key.startswith(PREFIXES)}


def _settings_of(options: Mapping[str, str]) -> dict[str, str]:
    """What the files say that the options, or the environment, name."""
    hadoop, hive = (
        options.get(name) or os.environ.get(variable)
        for name, variable in ((_HADOOP, "HADOOP_CONF_DIR"), ("hive-conf-dir", "HIVE_CONF_DIR"))
    )
    files = [Path(home, name) for home, name in ((hadoop, "core-site.xml"), (hive, "hive-site.xml")) if home]
    if "hive-conf-dir" in options and not files[-1].is_file():
        raise OptionError("the option hive-conf-dir names a directory without hive-site.xml", path=hive)
    found = properties_of(files)
    return {name: substituted(value, found) for name, value in found.items()}


def _check(found: Mapping[str, str]) -> None:
    """Raise UnsupportedError for what is refused by name."""
    client = found.get("metastore.client.class", _PLAIN_CLIENT)
    if client == _GLUE_CLIENT:
        return
    if client != _PLAIN_CLIENT:
        raise UnsupportedError(
            f"metastore.client.class={client:.200} is a class of Java",
            hint="leave it out: requests are sent by Thrift. Of other metastores, open the tables by their paths",
            feature="other-catalogs",
        )
    if found.get("lock.type", "hive") != "hive":
        raise UnsupportedError(f"lock.type={found['lock.type']:.40} is not supported", hint="leave it out: it is hive")
    lowered = {name.lower(): text for name, text in found.items()}  # as Spark gives names of options
    for name, (value, what) in _REFUSED.items():
        if lowered.get(name.lower(), "").strip().lower() == value:
            raise UnsupportedError(
                f"the metastore wants {what} ({name}={value}), which is not supported",
                hint="open the tables by their paths, or by a metastore that takes plain Thrift",
                feature="hive-security",
            )


def _of_glue(options: Mapping[str, str], found: Mapping[str, str]) -> Mapping[str, str]:
    """What a client of AWS Glue goes by. Raises UnsupportedError: what is refused by name."""
    if parse_value("lock.enabled", Kind.BOOLEAN, found.get("lock.enabled", "false")):
        raise UnsupportedError(
            "AWS Glue has no locks, which lock.enabled wants",
            hint="set lock.enabled=false, for jobs of Java, too: they fail otherwise where the warehouse is in S3",
            feature="glue",
        )
    if found.get(_SEPARATOR):
        raise UnsupportedError(
            f"{_SEPARATOR}, for names with the catalog's in them, is not supported",
            hint=f"open a catalog for each: {CATALOG_ID}",
            feature="glue",
        )
    own = {name: found[name] for name in (REGION, ENDPOINT, CATALOG_ID) if name in found}
    return RedactedDict({**options_of_store("s3://glue", storage_options(options)), **own})


def _addresses(uris: str) -> tuple[tuple[str, int], ...]:
    found = list[tuple[str, int]]()
    for uri in filter(None, (part.strip() for part in uris.split(","))):
        match = re.fullmatch(r"thrift://(\[[0-9A-Fa-f:.]+\]|[^:/\[\]\s@]+)(?::(\d{1,5}))?/?", uri)
        if match is None or not 0 < int(match[2] or _DEFAULT_PORT) < 65536:
            raise OptionError(
                f"not the address of a Hive metastore: {redact(uri):.200}", hint="write thrift://host:9083"
            )
        found.append((match[1].strip("[]"), int(match[2] or _DEFAULT_PORT)))
    if not found:
        raise OptionError(
            "a Hive catalog needs the option uri, thrift://host:9083",
            hint="or hive-conf-dir, a directory whose hive-site.xml has hive.metastore.uris",
        )
    return tuple(found)


def _warehouse(options: Mapping[str, str], found: Mapping[str, str]) -> str:
    """The warehouse as it was given. Hadoop's default file system is meant where a file of Hive's has no scheme."""
    if options.get("warehouse"):
        return options["warehouse"]
    given = found.get("hive.metastore.warehouse.dir", "")
    if not given:
        raise OptionError(
            "a Hive catalog needs the option warehouse", hint="or hive.metastore.warehouse.dir in its hive-site.xml"
        )
    if re.match(r"[A-Za-z][\w+.-]*:", given):
        return given
    default = found.get("fs.defaultFS") or found.get("fs.default.name")
    if not default:
        raise OptionError(
            f"hive.metastore.warehouse.dir={given:.200} does not say in which file system",
            hint="give the option warehouse with its scheme, or hadoop-conf-dir with a core-site.xml (fs.defaultFS)",
        )
    return f"{default.rstrip('/')}/{given.lstrip('/')}"


def seconds_of(name: str, text: str) -> float:
    """A time of Hive's: seconds where it has no unit. Raises OptionError."""
    match = _TIME.fullmatch(text.lower())
    units: dict[str, Any] = {"": 1, "s": 1, "sec": 1, "ms": 0.001, "msec": 0.001, "m": 60, "min": 60, "h": 3600}
    if match is None or match[2] not in units:
        raise OptionError(f"the option {name} must be a duration, not {text!r:.40}", hint="such as 600s")
    return float(int(match[1]) * units[match[2]])
