"""All that a writer needs to know of a table. It pickles: Spark sends it to tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from paimon_pyds.caching import cached_property
from paimon_pyds.errors import OptionError
from paimon_pyds.formats import traits_of
from paimon_pyds.formats.statistics import stats_modes
from paimon_pyds.index.config import IndexSpec, parse_index_specs
from paimon_pyds.metadata.paths import TablePaths
from paimon_pyds.metadata.schema import TableSchema, schema_digest
from paimon_pyds.options import TableOptions
from paimon_pyds.redaction import without_secrets
from paimon_pyds.storage.base import FileIO
from paimon_pyds.write.conform import Conformer
from paimon_pyds.write.defaults import without_defaults
from paimon_pyds.write.layout import ROW_ID_FIELDS, RowLayout

__all__ = ["FILE_SOURCE_APPEND", "FILE_SOURCE_COMPACT", "WriteContext"]

FILE_SOURCE_APPEND = 0
FILE_SOURCE_COMPACT = 1
_APPEND_TARGET_SIZE = 256 << 20


@dataclass(frozen=True)
class WriteContext:
    """A table as it is written to: where, with which schema, and with which options.

    Secrets among the options, which other writers may have stored, stay behind: no task needs one.

    Attributes:
        existing_rows: the rows were in the table before: their NULLs stay what they are, whatever defaults columns
            have, and they keep their row ids, which they bring along.
        schema_digest: `schema_digest` of the table's schema with all its options.
    """

    io: FileIO
    root: str
    branch: str
    schema: TableSchema
    dynamic_options: Mapping[str, str] = field(default_factory=dict)
    file_source: int = FILE_SOURCE_APPEND
    existing_rows: bool = False
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

    @cached_property
    def layout(self) -> RowLayout:
        """The columns of the data files."""
        if not self.existing_rows:
            return RowLayout(self.schema.fields)
        trailing = ROW_ID_FIELDS if self.options.get("row-tracking.enabled") else ()
        return RowLayout(without_defaults(self.schema.fields), trailing)

    def conformer(self) -> Conformer:
        """What brings rows to the columns `RowLayout.incoming`."""
        trims = traits_of(self.file_suffix).trims_char
        keys = self.schema.partition_keys
        return Conformer(self.layout.incoming, self.root, trims_char=trims, partition_keys=keys)

    @cached_property
    def target_file_size(self) -> int:
        """Bytes at which a file is rolled."""
        return int(self.options.get("target-file-size") or _APPEND_TARGET_SIZE)

    @cached_property
    def target_file_rows(self) -> int:
        """Rows at which a file is rolled. Raises OptionError when there are none."""
        rows = int(self.options.get("target-file-row-num"))
        if rows < 1:
            raise OptionError(f"target-file-row-num must be at least 1, it is {rows}", path=self.root)
        return rows

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
        return parse_index_specs(self.raw_options, self.layout.table)

    @cached_property
    def stats_modes(self) -> Sequence[str]:
        """The statistics mode of each column that rows come with."""
        layout = self.layout
        return (*stats_modes(layout.table, self.raw_options), *("none" for _ in layout.trailing))


_SUFFIXES = {"zstd": "zst", "gzip": "gz", "snappy": "snappy", "lz4": "lz4"}
