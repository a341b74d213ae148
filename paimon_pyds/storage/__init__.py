"""Byte storage: local disks and volumes, object stores. `open_file_io` chooses by the scheme of a location.

A location is a path, absolute or relative, a ``file:`` URI, a ``dbfs:`` path of Databricks, or an object store's URI.
As in Java Paimon, nothing in a URI is percent-decoded: partition directories hold ``%`` signs of their own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.storage.base import SCHEME, FileIO, scheme_of

__all__ = ["is_path", "normalise_location", "open_file_io", "options_of_store"]

_ARROW_SCHEMES = frozenset({"s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs"})
"""Schemes that pyarrow's file systems serve."""

_ALTERNATIVES = {
    **dict.fromkeys(
        ("oss", "obs", "cosn"), "mount the bucket, or reach it by its S3-compatible endpoint (s3://… with s3.endpoint)"
    ),
    **dict.fromkeys(("wasb", "wasbs"), "use the abfss:// address of the same container"),
    **dict.fromkeys(("http", "https"), "download the table first"),
}
"""Of schemes that are not supported: what to do instead."""


def is_path(text: str) -> bool:
    """Whether the operating system can be asked for a file of this name: half of a surrogate pair has no bytes."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def normalise_location(location: str | os.PathLike[str]) -> str:
    """The one spelling of a location: an absolute local path, or ``scheme://authority/path`` without a trailing slash.

    Raises:
        OptionError: an empty location, or one with a NUL character or half of a surrogate pair.
    """
    text: object = os.fspath(location)
    if not isinstance(text, str) or not text.strip() or not is_path(text):
        raise OptionError(f"not a location: {location!r:.200}", hint="give the path of a table or warehouse")
    match = SCHEME.match(text)
    if match is None:
        return os.path.abspath(os.path.expanduser(text))
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme == "file":
        return os.path.abspath(_without_authority(rest))
    if scheme == "dbfs":
        path = os.path.abspath(_without_authority(rest))
        return path if path == "/Volumes" or path.startswith("/Volumes/") else "/dbfs" + path
    authority, _, key = rest.lstrip("/").partition("/")
    return f"{scheme}://{authority}/{_clean_key(key)}".rstrip("/")


def _without_authority(rest: str) -> str:
    """``//host/path`` and ``///path`` to ``/path``; only this machine can be the host."""
    if not rest.startswith("//"):
        return rest
    host, slash, path = rest[2:].partition("/")
    if host not in ("", "localhost"):
        raise OptionError(f"a file: address of another machine: {host}", hint="write file:///path, with three slashes")
    return slash + path


def _clean_key(key: str) -> str:
    return "/".join(part for part in key.split("/") if part not in ("", "."))


def open_file_io(
    location: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> tuple[FileIO, str]:
    """The FileIO that serves a location, and the location in the spelling that FileIO understands.

    ``storage_options`` (credentials, endpoints) matter to object stores only; a local path needs none and ignores them.

    Raises:
        OptionError: an empty location or an option that contradicts it.
        UnsupportedError: a scheme that nothing here serves.
    """
    path = normalise_location(location)
    scheme = scheme_of(path)
    if scheme == "file":
        from paimon_pyds.storage.local import LocalFileIO

        return LocalFileIO(), path
    if scheme in _ARROW_SCHEMES:
        from paimon_pyds.storage.arrow import ArrowFileIO

        return ArrowFileIO(path, storage_options), path
    raise UnsupportedError(
        f"storage of scheme {scheme}:// is not supported",
        path=path,
        hint=_ALTERNATIVES.get(scheme, "use a local path, file:, dbfs:/Volumes, s3, gs, abfs(s) or hdfs"),
    )


def options_of_store(location: str, storage_options: Mapping[str, str]) -> dict[str, str]:
    """The storage options that `open_file_io` uses for a location: tasks get no credentials of other stores."""
    scheme = scheme_of(normalise_location(location))
    if scheme not in _ARROW_SCHEMES:
        return {}
    from paimon_pyds.storage.arrow import concerns

    return {key: value for key, value in storage_options.items() if concerns(scheme, key)}
