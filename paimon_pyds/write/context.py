"""All that a writer needs to know of a table. It pickles: Spark sends it to tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from paimon_pyds.caching import cached_property
from paimon_pyds.formats.statistics import stats_modes
from paimon_pyds.index.config import IndexSpec, parse_index_specs
from paimon_pyds.metadata.paths import TablePaths
from paimon_pyds.metadata.schema import TableSchema, schema_digest
from paimon_pyds.options import TableOptions
from paimon_pyds.redaction import without_secrets
from paimon_pyds.storage.base import FileIO
from paimon_pyds.types import DataField

__all__ = ["FILE_SOURCE_APPEND", "FILE_SOURCE_COMPACT", "WriteContext"]

FILE_SOURCE_APPEND = 0
FILE_SOURCE_COMPACT = 1
_APPEND_TARGET_SIZE = 256 << 20


@dataclass(frozen=True)
class WriteContext:
    """A table as it is written to: where, with which schema, and with which options.

    Secrets among the options, which other writers may have stored, stay behind: no task needs one. ``schema_digest``
    tells the table's schema from others, also where ``schema`` has columns of the files besides.
    """

    io: FileIO
    root: str
    branch: str
    schema: TableSchema
    dynamic_options: Mapping[str, str] = field(default_factory=dict)
    file_source: int = FILE_SOURCE_APPEND
    schema_digest: str = ""

    def __post_init__(self) -> None:
        if not self.schema_digest:
            object.__setattr__(self, "schema_digest", schema_digest(self.schema))

        public = replace(self.schema, options=without_secrets(self.schema.options))
        object.__setattr__(self, "schema", public)
        object.__setattr__(self, "dynamic_options", without_secrets(self.dynamic_options))

    @cached_property
    def raw_options(self) -> dict[str, str]:
        """The table's options with the write's own on top."""
        return {**self.schema.options, **self.dynamic_options}

    @cached_property
    def options(self) -> TableOptions:
        """The same, typed."""
        return TableOptions(self.raw_options)

    @cached_property
    def paths(self) -> TablePaths:
        """The table's paths."""
        return TablePaths(self.root, self.branch, self.raw_options)

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the data files."""
        return self.schema.fields

    @cached_property
    def target_file_size(self) -> int:
        """Bytes at which a file is rolled."""
        return int(self.options.get("target-file-size") or _APPEND_TARGET_SIZE)

    @cached_property
    def file_suffix(self) -> str:
        """What follows the dot of a data file's name."""
        name = str(self.options.get("file.format"))
        if self.options.get("file.suffix.include.compression"):
            compression = str(self.options.get("file.compression"))
            return f"{_SUFFIXES.get(compression, compression)}.{name}"
        return name

    @cached_property
    def index_specs(self) -> Sequence[IndexSpec]:
        """The file indexes to build."""
        return parse_index_specs(self.raw_options, self.fields)

    @cached_property
    def stats_modes(self) -> Sequence[str]:
        """The statistics mode of each column."""
        return stats_modes(self.fields, self.raw_options)


_SUFFIXES = {"zstd": "zst", "gzip": "gz", "snappy": "snappy", "lz4": "lz4"}
