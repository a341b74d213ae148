"""The path of every file of a table (specification: Paimon documentation, concepts/spec/fileformat and concepts/basic).

    schema/schema-N · snapshot/snapshot-N, LATEST, EARLIEST · manifest/… · index/… · statistics/… · tag/tag-NAME
    branch/branch-NAME/{schema,snapshot,tag}                 manifests, index and data files stay in the main ones
    [data-file.path-directory/]k=v/…/bucket-B/data-….parquet bucket -2 is "bucket-postpone"

File names come from metadata, which may be hostile: a name that would leave its directory raises SecurityError. A file
outside of the table has to be below a directory that the table's own options name (``data-file.external-paths``, in any
version of its schema), or that the caller allows by the storage option ``external-paths.allow``. A writer of manifests
may be able to write options too: with ``external-paths.trust-table`` false only the caller's directories count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.options.option import Kind, comma_separated, parse_value
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row import decode_rows
from paimon_pyds.base.secrets import RedactedDict
from paimon_pyds.base.types import DataField, scalar_to_internal
from paimon_pyds.errors import OptionError, SchemaError, SecurityError, UnsupportedError
from paimon_pyds.storage import normalise_location, scheme_of

if TYPE_CHECKING:
    from paimon_pyds.metadata.schema import TableSchema
    from paimon_pyds.metadata.store import TableStore

MAIN_BRANCH = "main"
POSTPONE_BUCKET = -2
"""The bucket of rows that wait for their own (Java: BucketMode.POSTPONE_BUCKET)."""
DEFAULT_PARTITION_NAME = "__DEFAULT_PARTITION__"

_EXTERNAL = "external-paths."
ALLOW = f"{_EXTERNAL}allow"
"""The storage option with directories, separated by commas, whose files tables may name."""
TRUST = f"{_EXTERNAL}trust-table"
"""The storage option that says whether the directories that a table's own options name count; true by default."""

_OPTION = "data-file.external-paths"
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]+:")

_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")
_JAVA_WHITESPACE = frozenset(
    map(chr, [*range(9, 14), *range(28, 33), 0x1680, *range(0x2000, 0x2007), 0x2008, 0x2009, 0x200A, 0x2028, 0x2029])
) | {"\u205f", "\u3000"}


def escape_path_name(name: str) -> str:
    r"""One ``k`` or ``v`` of a partition directory: control characters and ``"#%'*/:=?\{}[]^`` become ``%XX``."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", name)


def partition_path(fields: Sequence[DataField], values: Sequence[Any], options: Mapping[str, str] | None = None) -> str:
    """The directory of a partition, ``k=v/k2=v2``, byte for byte as Java names it; ``""`` without partition columns.

    Args and errors are those of `partition_names`.
    """
    names = partition_names(fields, values, options or {})
    return "/".join(f"{escape_path_name(name)}={escape_path_name(text)}" for name, text in names.items())


def partition_names(fields: Sequence[DataField], values: Sequence[Any], options: Mapping[str, str]) -> dict[str, str]:
    """The values of a partition as its directory has them, but not escaped, by column.

    NULL, empty and blank values are all called as ``partition.default-name`` says.

    ``fields``: the partition columns, in partition order. ``values``: their internal values; None is NULL. ``options``:
    the table's options (partition.default-name, partition.legacy-name).
    Raises UnsupportedError: a type without a stable directory name; SchemaError: another number of values than columns.
    """
    if len(fields) != len(values):
        raise SchemaError(f"{len(values)} partition values for {len(fields)} partition columns")
    legacy = options.get("partition.legacy-name", "true").strip().lower() != "false"
    default = options.get("partition.default-name", DEFAULT_PARTITION_NAME)
    names = {}
    from paimon_pyds.base.types.java_text import partition_text

    for column, value in zip(fields, values, strict=True):
        text = "" if value is None else partition_text(value, column.type, legacy=legacy)
        names[column.name] = default if all(c in _JAVA_WHITESPACE for c in text) else text
    return names


def partition_directory(schema: TableSchema, partition: bytes) -> str:
    """The directory of a partition, ``k=v/k2=v2``; empty for a table without partitions."""
    [directory] = partition_directories(schema, [partition])
    return directory


def partition_directories(schema: TableSchema, partitions: Sequence[bytes]) -> list[str]:
    """The directories of partitions, as `partition_directory`."""
    fields = schema.partition_fields
    if not fields:
        return [""] * len(partitions)
    return [partition_path(fields, row, schema.options) for row in _values(fields, partitions)]


def _values(fields: Sequence[DataField], partitions: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
    columns = decode_rows(array(partitions, pa.binary()), [f.type for f in fields], arity=True)
    return zip(*([scalar_to_internal(value) for value in column] for column in columns), strict=True)


def checked_name(name: str, what: str = "file") -> str:
    """``name`` when it names something directly inside a directory.
    Raises SecurityError: it is empty, has a slash or NUL, or is ``.`` or ``..``."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise SecurityError(
            f"a {what} name of the table's metadata leaves its directory: {name!r:.200}",
            hint="the metadata is damaged or hostile: do not read this table",
        )
    return name


def check_names(names: Sequence[str], what: str = "file") -> None:
    """Raises SecurityError as `checked_name` does for the first of many that it is raised for."""
    joined = "/".join(names)
    if joined.count("/") >= max(len(names), 1) or "\0" in joined or not {"", ".", ".."}.isdisjoint(names):
        for name in names:
            checked_name(name, what)


def _checked_relative(path: str) -> str:
    return "/".join(checked_name(part, "directory") for part in path.split("/")) if path else ""


@dataclass(frozen=True, slots=True)
class TablePaths:
    """The paths of one table, in one branch.

    Args:
        root: the table's location as `open_file_io` normalised it.
        branch: schemas, snapshots and tags are the branch's own; everything else is shared.
        options: the table's options that move files: data-file.path-directory, index-file-in-data-file-dir.
        external_roots: directories outside of the table that may have its files, as `normalise_location` spells them.
    """

    root: str
    branch: str = MAIN_BRANCH
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    external_roots: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", RedactedDict(self.options))

    def with_options(self, options: Mapping[str, str]) -> TablePaths:
        """The same table with the options of a schema."""
        return TablePaths(self.root, self.branch, options, self.external_roots)

    def with_external(self, roots: Sequence[str]) -> TablePaths:
        """The same table with directories outside of it that may hold its files."""
        return TablePaths(self.root, self.branch, self.options, tuple(roots))

    def for_branch(self, branch: str) -> TablePaths:
        """The paths of another branch of the table."""
        return TablePaths(self.root, branch, self.options, self.external_roots)

    # ----------------------------------------------------------------------------------- per branch

    @property
    def branch_root(self) -> str:
        """The directory of the branch's schemas, snapshots and tags: the table itself for main."""
        return self.root if self.branch == MAIN_BRANCH else self.branch_dir(self.branch)

    @property
    def schema_dir(self) -> str:
        return f"{self.branch_root}/schema"

    def schema(self, id_: int) -> str:
        """``schema/schema-N``."""
        return f"{self.schema_dir}/schema-{id_}"

    @property
    def snapshot_dir(self) -> str:
        return f"{self.branch_root}/snapshot"

    def snapshot(self, id_: int) -> str:
        """``snapshot/snapshot-N``."""
        return f"{self.snapshot_dir}/snapshot-{id_}"

    @property
    def latest_hint(self) -> str:
        return f"{self.snapshot_dir}/LATEST"

    @property
    def earliest_hint(self) -> str:
        return f"{self.snapshot_dir}/EARLIEST"

    @property
    def tag_dir(self) -> str:
        return f"{self.branch_root}/tag"

    def tag(self, name: str) -> str:
        """``tag/tag-NAME``."""
        return f"{self.tag_dir}/{checked_name('tag-' + name, 'tag')}"

    @property
    def consumer_dir(self) -> str:
        return f"{self.branch_root}/consumer"

    def consumer(self, id_: str) -> str:
        """``consumer/consumer-ID``."""
        return f"{self.consumer_dir}/{checked_name('consumer-' + id_, 'consumer')}"

    @property
    def stream_writers_dir(self) -> str:
        """Files of this package's; removals of orphan files, also Java Paimon's, leave the directory alone."""
        return f"{self.branch_root}/stream-writer"

    def stream_writer(self, user: str) -> str:
        """``stream-writer/writer-USER``; of other users than short lower-case names the digest."""
        name = user
        if not _PLAIN_NAME.fullmatch(user):
            import hashlib  # OpenSSL takes time to load, and few processes need it

            name = hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()
        return f"{self.stream_writers_dir}/writer-{name}"

    @property
    def changelog_dir(self) -> str:
        return f"{self.branch_root}/changelog"

    def changelog(self, id_: int) -> str:
        """``changelog/changelog-N``, of a snapshot that has expired."""
        return f"{self.changelog_dir}/changelog-{id_}"

    def changelog_hint(self, name: str) -> str:
        """``changelog/EARLIEST`` or ``LATEST``."""
        return f"{self.changelog_dir}/{name}"

    # --------------------------------------------------------------------------------------- shared

    @property
    def branches_dir(self) -> str:
        return f"{self.root}/branch"

    def branch_dir(self, name: str) -> str:
        """``branch/branch-NAME``."""
        return f"{self.branches_dir}/{checked_name('branch-' + name, 'branch')}"

    @property
    def manifest_dir(self) -> str:
        return f"{self.root}/manifest"

    def manifest(self, name: str) -> str:
        """A manifest, manifest list or index manifest."""
        return f"{self.manifest_dir}/{checked_name(name, 'manifest')}"

    @property
    def index_dir(self) -> str:
        return f"{self.root}/index"

    def index(self, name: str) -> str:
        """A file of the index directory."""
        return f"{self.index_dir}/{checked_name(name, 'index')}"

    def statistics(self, name: str) -> str:
        """A statistics file of ANALYZE."""
        return f"{self.root}/statistics/{checked_name(name, 'statistics')}"

    @property
    def data_root(self) -> str:
        """The directory of partitions and buckets."""
        inner = _checked_relative(self.options.get("data-file.path-directory", "").strip("/"))
        return f"{self.root}/{inner}" if inner else self.root

    def bucket_dir(self, partition: str, bucket: int) -> str:
        """The directory of a bucket; ``partition`` is what `partition_path` gives."""
        inner = f"{_checked_relative(partition)}/" if partition else ""
        return f"{self.data_root}/{inner}bucket-{'postpone' if bucket == POSTPONE_BUCKET else bucket}"

    def data_file(self, partition: str, bucket: int, file_name: str, external_path: str | None = None) -> str:
        """A data file, given what its manifest entry says.

        Raises:
            SecurityError: names that leave the directory, an external path that nobody allows.
            UnsupportedError: the file is on another kind of storage than the table.
        """
        return self.data_file_in(self.bucket_dir(partition, bucket), file_name, external_path)

    def data_file_in(self, bucket_dir: str, file_name: str, external_path: str | None = None) -> str:
        """The same from a result of `bucket_dir`, which many files share."""
        checked_name(file_name, "data file")
        if external_path is None:
            return f"{bucket_dir}/{file_name}"
        return self._external(external_path, file_name)

    def extra_file(self, data_file: str, name: str) -> str:
        """A file next to a data file (a side index)."""
        return f"{data_file.rpartition('/')[0]}/{checked_name(name)}"

    @property
    def indexes_are_beside_data(self) -> bool:
        """Whether files of index manifests are in the directories of buckets."""
        return self.options.get("index-file-in-data-file-dir", "false").strip().lower() == "true"

    def index_file(self, partition: str, bucket: int, file_name: str, external_path: str | None = None) -> str:
        """A file of an index manifest: deletion vectors or hashes.

        It is in the index directory, or in the bucket's with option index-file-in-data-file-dir.
        """
        checked_name(file_name, "index")
        if external_path is not None:
            return self._external(external_path, file_name)
        if self.indexes_are_beside_data:
            return f"{self.bucket_dir(partition, bucket)}/{file_name}"
        return self.index(file_name)

    def _external(self, external_path: str, file_name: str) -> str:
        if re.split(r"[/\\]", external_path)[-1] != file_name:
            raise SecurityError(f"the external path of {file_name} names another file", path=external_path)
        return named_file(self.root, external_path, self.external_roots)


@dataclass(frozen=True, slots=True)
class ExternalPaths:
    """What the caller allows: directories, and whether those of the table's options count too."""

    allowed: tuple[str, ...] = ()
    trust_table: bool = True

    @classmethod
    def of(cls, storage_options: Mapping[str, str] | None) -> ExternalPaths:
        """The settings in storage options. Raises OptionError for a value that is not a directory, and for an unknown
        option."""
        given = {k: str(v) for k, v in (storage_options or {}).items() if k.lower().startswith(_EXTERNAL)}
        for key in given:
            if key.lower() not in (ALLOW, TRUST):
                raise OptionError(f"unknown storage option {key}", hint=f"known: {ALLOW}, {TRUST}")
        options = {k.lower(): v for k, v in given.items()}
        allowed = []
        for text in comma_separated(options.get(ALLOW, "")):
            root = _root(text)
            if root is None:
                raise OptionError(
                    f"{ALLOW}: {text!r} is no absolute directory", hint="such as file:/data or s3://b/dir"
                )
            allowed.append(root)
        trust = parse_value(TRUST, Kind.BOOLEAN, options.get(TRUST, "true"))
        return cls(tuple(allowed), bool(trust))

    def roots(self, options: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
        """The directories that may have files, given the options of all versions of a table's schema."""
        of_table = [text for o in options for text in comma_separated(o.get(_OPTION, ""))] if self.trust_table else []
        roots = (*self.allowed, *(root for text in of_table if (root := _root(text)) is not None))
        return tuple(dict.fromkeys(roots))


def file_paths(store: TableStore, options: Mapping[str, str], *, outside: bool) -> TablePaths:
    """The paths of data and index files under the options of a schema.

    ``outside``: whether the metadata has external paths of files; then all schemas of the table are read.
    """
    paths = store.paths.with_options(options)
    if not outside:
        return paths
    stores = [store] if store.branch == MAIN_BRANCH else [store, store.for_branch(MAIN_BRANCH)]
    return paths.with_external(store.external.roots(schema.options for each in stores for schema in each.schemas()))


def named_file(root: str, path: str, allowed: Iterable[str]) -> str:
    """A file that the metadata of a table names by its whole path, as `normalise_location` spells it.

    ``root``: the table. ``allowed``: directories outside of it that may hold its files.

    Raises:
        SecurityError: it is in another directory, or the path climbs, or is not absolute.
        UnsupportedError: it is on another kind of storage than the table.
    """
    if _climbs(path):
        raise SecurityError("the table's metadata names a file by a path with ..", path=path)
    try:
        place = _as_spelled(normalise_location(path), root)
    except OptionError as error:
        raise SecurityError("an external path that is no location", path=path) from error
    if not is_absolute(path):
        raise SecurityError("an external path that is not absolute", path=path)
    if not lies_below(place, (root, *(_as_spelled(directory, root) for directory in allowed))):
        raise SecurityError(
            "the table's metadata names a file outside of the table, in no directory that is allowed",
            path=path,
            hint=f"if it belongs there, allow its directory by the storage option {ALLOW}, a list of directories",
        )
    if scheme_of(place) != scheme_of(root):
        raise UnsupportedError(f"a data file is on {scheme_of(place)}: and the table on {scheme_of(root)}:", path=path)
    return place


def _as_spelled(location: str, root: str) -> str:
    """A location with the scheme of a table where both name one kind of store: s3 and s3a, abfs and abfss."""
    scheme, own = scheme_of(location), scheme_of(root)
    if scheme == own:
        return location
    from paimon_pyds.storage.store_options import family

    return own + location[len(scheme) :] if family(scheme) == family(own) != "hdfs" else location


def _climbs(path: str) -> bool:
    return ".." in re.split(r"[/\\]", path)


def is_absolute(location: str) -> bool:
    """Whether a location is a path from the root or has a scheme."""
    return _ABSOLUTE.match(location) is not None


def lies_below(path: str, roots: Iterable[str]) -> bool:
    """Whether a path, as `normalise_location` spells it, is in one of these directories."""
    return any(path.startswith(f"{root.rstrip('/')}/") for root in roots)


def _root(text: str) -> str | None:
    """The one spelling of a directory; None when it is not absolute, or climbs."""
    if not is_absolute(text) or _climbs(text):
        return None
    try:
        return normalise_location(text)
    except OptionError:
        return None
