"""The FileIO that serves a location."""

from __future__ import annotations

import os
from collections.abc import Mapping

from paimon_pyds.errors import UnsupportedError
from paimon_pyds.storage.base import FileIO
from paimon_pyds.storage.location import ARROW_SCHEMES, normalise_location, scheme_of

__all__ = ["open_file_io", "options_of_store"]

_WITHOUT_SUPPORT = {
    "oss": "mount the bucket, or reach it through its S3-compatible endpoint (s3://… with s3.endpoint)",
    "obs": "mount the bucket, or reach it through its S3-compatible endpoint (s3://… with s3.endpoint)",
    "cosn": "mount the bucket, or reach it through its S3-compatible endpoint (s3://… with s3.endpoint)",
    "wasb": "use the abfss:// address of the same container",
    "wasbs": "use the abfss:// address of the same container",
    "http": "download the table first",
    "https": "download the table first",
}


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
    if scheme in ARROW_SCHEMES:
        from paimon_pyds.storage.arrow import ArrowFileIO

        return ArrowFileIO(path, storage_options), path
    raise UnsupportedError(
        f"storage of scheme {scheme}:// is not supported",
        path=path,
        hint=_WITHOUT_SUPPORT.get(scheme, "use a local path, file:, dbfs:/Volumes, s3, gs, abfs(s) or hdfs"),
    )


def options_of_store(location: str, storage_options: Mapping[str, str]) -> dict[str, str]:
    """The storage options that `open_file_io` uses for a location: tasks get no credentials of other stores."""
    scheme = scheme_of(normalise_location(location))
    if scheme not in ARROW_SCHEMES:
        return {}
    from paimon_pyds.storage.arrow import concerns

    return {key: value for key, value in storage_options.items() if concerns(scheme, key)}
