"""What would keep every write to a table from succeeding, looked for before there is a table, a file or a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_pyds.avro.compression import codec_name
from paimon_pyds.errors import OptionError
from paimon_pyds.formats import by_name
from paimon_pyds.formats.statistics import stats_modes
from paimon_pyds.options import TableOptions
from paimon_pyds.types import DataField

__all__ = ["check_files"]


def check_files(fields: Sequence[DataField], options: Mapping[str, str]) -> None:
    """Whether data files and manifests of these columns can be written as the options say.

    Raises:
        OptionError: a value that is none of the option's.
        UnsupportedError: a compression, a type or a name that the file format can't have.
    """
    typed = TableOptions(options)
    by_name(str(typed.get("file.format"))).check_writer(fields, options)
    stats_modes(fields, options)
    codec_name(str(typed.get("manifest.compression")))
    prefix = str(typed.get("data-file.prefix"))
    if "/" in prefix or "\0" in prefix:
        raise OptionError(f"data-file.prefix={prefix!r:.100} can't begin a file's name", hint="leave out its slash")
