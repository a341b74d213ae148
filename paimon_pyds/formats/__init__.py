"""Data file formats, found by name or by a file's suffix, each loaded when it is first used."""

from __future__ import annotations

from paimon_pyds.errors import UnsupportedError
from paimon_pyds.formats.base import TRAITS, FileFormat, FormatTraits

__all__ = ["by_name", "by_path", "traits_of"]

_FORMATS: dict[str, FileFormat] = {}
_NO_TRAITS = FormatTraits()


def by_name(name: str) -> FileFormat:
    """The format of that name (option ``file.format``): parquet, orc or avro.

    Raises:
        UnsupportedError: another name.
    """
    key = name.lower()
    found = _FORMATS.get(key)
    if found is None:
        found = _FORMATS[key] = _load(key)
    return found


def by_path(path: str) -> FileFormat:
    """The format of a data file, by its suffix: Paimon names files ``data-….<format>`` whatever the table says now.

    Raises:
        UnsupportedError: the suffix names no format that is read here.
    """
    _, dot, suffix = path.rsplit("/", 1)[-1].rpartition(".")
    if not dot:
        raise UnsupportedError("a data file without a suffix has no known format", path=path)
    try:
        return by_name(suffix)
    except UnsupportedError as error:
        raise UnsupportedError(error.message, path=path, hint=error.hint) from None


def traits_of(name: str) -> FormatTraits:
    """What a format can do, by its name or the name of a file; the least for one that is not known."""
    return TRAITS.get(name.rpartition(".")[2].lower(), _NO_TRAITS)


def _load(name: str) -> FileFormat:
    if name == "parquet":
        from paimon_pyds.formats.parquet import ParquetFormat

        return ParquetFormat()
    if name == "orc":
        from paimon_pyds.formats.orc.reader import OrcFormat

        return OrcFormat()
    if name == "avro":
        from paimon_pyds.formats.avro.reader import AvroFormat

        return AvroFormat()
    raise UnsupportedError(f"data files of format {name!r:.40} are not supported", hint="parquet, orc and avro are")
