"""Views of BLOBs: the row of another table whose BLOB is meant, as the place where its bytes are.

Source: Paimon documentation, multimodal-table/blob; Java: class BlobViewLookup.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.options import TableOptions, holds_views
from paimon_pyds.base.types import Kind
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.travel import TableState
from paimon_pyds.errors import CorruptFileError, UnknownColumnError, UnsupportedError
from paimon_pyds.metadata.paths import MAIN_BRANCH, file_paths, named_file
from paimon_pyds.metadata.row_ids import ROW_ID
from paimon_pyds.metadata.split import METADATA_FIELDS, FilePlace
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import FileIO, check_range

if TYPE_CHECKING:
    from paimon_pyds.format.blob.references import BlobView


def places(io: FileIO, root: str, views: Sequence[bytes]) -> dict[bytes, FilePlace | None]:
    """Where the BLOBs are that views stand for; None for one that is NULL.

    Args:
        io: the storage of both tables.
        root: the table that has the views, in a directory ``<database>.db`` of a warehouse.
        views: their bytes.

    Raises:
        CorruptFileError: a value is no view, its row is gone, or its column is no BLOB.
        UnknownColumnError: the other table has no such column.
        UnsupportedError: the other table can't be found, or its column has views itself.
        StorageError: it can't be read.
    """
    from paimon_pyds.format.blob.references import BlobView, decode_view

    decoded = {view: decode_view(view) for view in set(views)}
    of_column: dict[tuple[str, int], list[int]] = {}
    for view in decoded.values():
        of_column.setdefault((view.table, view.field_id), []).append(view.row_id)
    found: dict[BlobView, FilePlace | None] = {}
    for (table, field_id), row_ids in of_column.items():
        rows = _places_of(_opened(io, root, table), field_id, row_ids)
        found |= {BlobView(table, field_id, row_id): place for row_id, place in rows.items()}
    for view in decoded.values():
        if view not in found:
            raise CorruptFileError(f"a view names row {view.row_id} of {view.table}, which has no such row", path=root)
    return {data: found[view] for data, view in decoded.items()}


def _opened(io: FileIO, root: str, name: str) -> TableStore:
    database, _, table = name.partition(".")
    table, _, branch = table.partition("$")
    warehouse, own, _ = root.rsplit("/", 2)
    is_path = all(part and "/" not in part and part not in (".", "..") for part in (database, table))
    if not own.endswith(".db") or not is_path or (branch and not branch.startswith("branch_")):
        raise UnsupportedError(
            f"the table {name:.100} of a view of a BLOB is not found from this one",
            path=root,
            hint="read the views with options={'blob-view.resolve.enabled': 'false'}",
            feature="blob",
        )
    return TableStore(io, f"{warehouse}/{database}.db/{table}", branch.removeprefix("branch_") or MAIN_BRANCH)


def _places_of(store: TableStore, field_id: int, row_ids: Sequence[int]) -> dict[int, FilePlace | None]:
    from paimon_pyds.engine.read import read_splits
    from paimon_pyds.engine.scan.plan import plan_scan
    from paimon_pyds.format.blob.references import decode_descriptor
    from paimon_pyds.keys.merge.key_set import one_of

    schema = store.latest_schema()
    field = next((field for field in schema.fields if field.id == field_id), None)
    if field is None:
        raise UnknownColumnError(f"a view names column {field_id}, which the table has not", path=store.root)
    if field.type.kind is not Kind.BLOB:
        raise CorruptFileError(f"a view names column {field.name}, which is of type {field.type}", path=store.root)
    if holds_views(field, schema.options):
        raise UnsupportedError(f"column {field.name} has views itself", path=store.root, feature="blob")
    options = TableOptions({**schema.options, "blob-as-descriptor": "true"})
    state = TableState(store.latest_snapshot(), schema)
    rows = one_of(METADATA_FIELDS[ROW_ID], array(row_ids, pa.int64()))
    plan = plan_scan(store, ScanRequest(state, rows, (field,), options, metadata_columns=(ROW_ID,)))
    outside = file_paths(store, schema.options, outside=True).external_roots
    found: dict[int, FilePlace | None] = {}
    for batch in read_splits(plan.spec, plan.files):
        for value, row_id in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            if value is None:
                found[row_id] = None
                continue
            uri, offset, length = decode_descriptor(value)
            path = named_file(store.root, uri, outside)
            size = store.io.size(path)
            place = FilePlace(path, offset, max(0, size - offset) if length < 0 else length)
            check_range(*place, size)
            found[row_id] = place
    return found
