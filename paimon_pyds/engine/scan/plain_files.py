"""Tables whose files hold their rows as they are, which any reader of Parquet reads without help of this package."""

from __future__ import annotations

from collections.abc import Collection

from paimon_pyds.base.types.kinds import BINARY_KINDS, FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS, Kind
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.result import ScanPlan
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage.local import LocalFileIO

_PLAIN_KINDS = frozenset({
    *INTEGER_KINDS, *FLOAT_KINDS, *STRING_KINDS, *BINARY_KINDS, Kind.BOOLEAN, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP,
    Kind.TIMESTAMP_LTZ,
})  # fmt: skip


def may_be_plain(store: TableStore, request: ScanRequest, most: int) -> bool:
    """Whether a scan of all rows may have plain files, ``most`` at most, as far as lists of manifests say that.

    Not where the table has indexes, as only this package's scans look into these.
    """
    state, options = request.state, request.options
    if state.snapshot is None or type(store.io) is not LocalFileIO or state.schema.primary_keys:
        return False
    if request.predicate is not Const.TRUE or request.row_limit is not None or request.between is not None:
        return False
    if request.metadata_columns or request.chain is not None or request.partitions is not None:
        return False
    if state.snapshot.index_manifest is not None or any(name.startswith("file-index.") for name in options):
        return False
    if any(field.type.kind not in _PLAIN_KINDS for field in request.fields):
        return False
    manifests = ManifestReader(store).manifests(state.snapshot)
    return sum(m.num_added_files - m.num_deleted_files for m in manifests) <= most


def plain_files(plan: ScanPlan, schemas: Collection[int]) -> tuple[str, ...] | None:
    """The paths of the files of a plan if each holds its rows as they are, in Parquet, and has one of some schemas;
    None for other plans."""
    return plan.paths if all(_is_plain(file, schemas) for file in plan.files) else None


def _is_plain(file: PlannedFile, schemas: Collection[int]) -> bool:
    apart = file.selection, file.index_path, file.deletion, file.write_cols, file.window, file.file_cols
    return (
        file.path.startswith("/")
        and file.path.endswith(".parquet")
        and file.schema_id in schemas
        and all(part is None for part in apart)
        and not file.parts
        and not file.merged
    )
