"""Which tables can be published as Iceberg tables (Paimon documentation, iceberg/overview; Java Paimon 1.4, class
IcebergCommitCallback).

Java publishes tables that Iceberg's readers can't read, or read wrongly: with deletion vectors that Iceberg does not
know, the deleted rows come back. These are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from paimon_pyds.base.options.core import ICEBERG_REST
from paimon_pyds.base.types import DataType, Kind, walk_fields
from paimon_pyds.errors import OptionError, UnsupportedError

if TYPE_CHECKING:
    from paimon_pyds.base.options.table_options import SchemaLike, TableOptions

LINEAGE_VERSION = 3
"""The first version of Iceberg's format with deletion vectors and row ids."""
STORAGE = "metadata.iceberg.storage"
RestAuth: TypeAlias = Literal["none", "basic", "oauth2", "sigv4"]
"""How requests to such a catalog are authorised."""
_NO_REST = ("rest.client.proxy.", "rest.client.tls.")
"""Settings of Java's client that decide how, or whether, a server is reached."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MICROS = (3, 6)
"""Precisions of timestamps that Iceberg's microseconds hold, as Java has them."""
_STAMPS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ})
_NO_PARTITION = frozenset({Kind.TIME, Kind.DECIMAL})
"""Java writes these, and timestamps of milliseconds, in forms that Iceberg's manifests don't have."""
_PLAIN = frozenset({
    Kind.BOOLEAN, Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL, Kind.DATE,
    Kind.CHAR, Kind.VARCHAR, Kind.BINARY, Kind.VARBINARY, Kind.ARRAY, Kind.MAP, Kind.ROW, Kind.MULTISET,
})  # fmt: skip
_REMEDY = f"unset {STORAGE}, or"


def publishes(options: TableOptions) -> bool:
    """Whether commits are followed by Iceberg metadata."""
    return str(options.get(STORAGE)) != "disabled"


def shows_vectors(options: TableOptions) -> bool:
    """Whether Iceberg's readers get the table's deletion vectors."""
    needed = (options.get("deletion-vectors.enabled"), options.get("deletion-vectors.bitmap64"))
    return all(needed) and int(options.get("metadata.iceberg.format-version")) == LINEAGE_VERSION


def beginning_with(prefix: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options whose keys begin with a prefix, by what follows it."""
    return {key.removeprefix(prefix): text for key, text in options.items() if key.startswith(prefix)}


def rest_auth(settings: Mapping[str, str]) -> RestAuth:
    """How the settings of a client want requests to be authorised (Apache Iceberg, class AuthManagers).

    Raises UnsupportedError: in a way that is not supported.
    """
    named = settings.get("rest.auth.type", "").strip().lower()
    has_token = not settings.keys().isdisjoint(("token", "credential"))
    if settings.get("rest.sigv4-enabled", "").strip().lower() == "true":
        named = "sigv4"
    found: RestAuth | None = next((kind for kind in get_args(RestAuth) if kind == named), None)
    if found is None and not named:
        return "oauth2" if has_token else "none"
    if found is None or (found == "sigv4" and has_token):
        what = f"{named} together with a token" if found else named
        raise UnsupportedError(
            f"{ICEBERG_REST}rest.auth.type={what:.60} is not supported", hint="none, basic, oauth2 and sigv4 are",
            feature="iceberg",
        )  # fmt: skip
    return found


def _check_rest(options: TableOptions) -> None:
    if options.get(STORAGE) != "rest-catalog":
        return
    settings = beginning_with(ICEBERG_REST, options)
    if not settings.get("uri"):
        raise OptionError(f"{STORAGE}=rest-catalog needs {ICEBERG_REST}uri", hint="it is the address of the catalog")
    if rest_auth(settings) == "sigv4" and find_spec("boto3") is None:
        raise OptionError("signatures of AWS need boto3", hint="pip install 'paimon-pyds[aws]'")
    for name in settings:
        if name.startswith(_NO_REST):
            raise UnsupportedError(
                f"{ICEBERG_REST}{name} is not supported", hint="set HTTPS_PROXY or SSL_CERT_FILE in the environment",
                feature="iceberg",
            )  # fmt: skip


def check_publishable(schema: SchemaLike, options: TableOptions) -> None:
    """Raises UnsupportedError, naming option or column, where Iceberg's readers could not read the table rightly."""
    if not publishes(options):
        return
    _check_rest(options)
    if options.get("data-evolution.enabled"):
        raise _refused("tables of data evolution: Iceberg has no files of single columns", "unset the other")
    formats = {str(options.get("file.format")), *options.get("file.format.per.level").values()}
    if formats != {"parquet"}:
        other = min(formats - {"parquet"})
        raise _refused(f"{other} files: Iceberg finds columns by ids, which only Parquet files have", "use parquet")
    layouts = [str(value).lower() for key, value in options.items() if key.endswith("map.storage-layout")]
    if "shared-shredding" in layouts:
        raise _refused("map.storage-layout=shared-shredding: Iceberg does not know such files", "unset the layout")
    if options.get("deletion-vectors.enabled") and not shows_vectors(options):
        raise _refused(
            "deletion vectors of this form: Iceberg's readers would not see them, and give deleted rows",
            "set deletion-vectors.bitmap64=true and metadata.iceberg.format-version=3",
        )
    for field in walk_fields(schema.fields):
        if not _is_known(field.type):
            raise _refused(f"column {field.name} of type {field.type}", "drop or cast the column")
    for field in schema.fields:
        if field.name not in schema.partition_keys:
            continue
        if _NAME.fullmatch(field.name) is None:
            what = f"partition column {field.name!r}: names in manifests have letters, digits and _"
            raise _refused(what, "rename it")
        precision = getattr(field.type, "precision", None) or 0
        if field.type.kind in _NO_PARTITION or (field.type.kind in _STAMPS and precision <= _MICROS[0]):
            raise _refused(
                f"partition column {field.name} of type {field.type}",
                "partition by another type, such as TIMESTAMP(6), DATE, BIGINT or STRING",
            )


def _refused(what: str, remedy: str) -> UnsupportedError:
    return UnsupportedError(f"Iceberg metadata can't describe {what}", hint=f"{_REMEDY} {remedy}", feature="iceberg")


def _is_known(type_: DataType) -> bool:
    precision = getattr(type_, "precision", None) or 0
    if type_.kind in _STAMPS:
        return _MICROS[0] <= precision <= _MICROS[1]
    if type_.kind is Kind.TIME:
        return precision <= _MICROS[0]
    return type_.kind in _PLAIN and all(map(_is_known, type_.children()))
