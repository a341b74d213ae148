"""Commits of tables whose snapshots a REST catalog publishes.

The request holds the snapshot; the server makes it the latest when nobody was faster. Sent twice it is published once,
as its number and its manifest list identify it: after a lost answer the snapshot is looked up.
(Source: Paimon documentation, concepts/rest/rest-api; Java Paimon, classes CatalogSnapshotCommit and RESTApi.)
"""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrays import grouped, pc, scalar
from paimon_pyds.base.json_http import MissingResourceError, UnansweredError
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.zones import local_instant_ms
from paimon_pyds.catalog.rest_client import RestClient, segment
from paimon_pyds.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    PaimonError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.partition_directories import PartitionDirectories
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.snapshot import Snapshot, parse_snapshot, snapshot_to_json
from paimon_pyds.metadata.store import TableStore

_PAUSES = Pauses(0.2, 3.0, factor=5.0)


class RestPublisher:
    """The `SnapshotPublisher` of one table.

    Args:
        client: of the server; None in tasks, which do not commit and get no token.
        table: the path of the main branch's requests.
        branch: the one that was opened.
        table_id: distinguishes it from another table of the same name.
    """

    def __init__(self, client: RestClient | None, table: str, branch: str, table_id: str) -> None:
        self._client, self._table, self._branch, self._table_id = client, table, branch, table_id

    def __repr__(self) -> str:
        return f"RestPublisher({self._table!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (None, self._table, self._branch, self._table_id))

    def latest_snapshot(self, store: TableStore) -> Snapshot | None:
        client = self._connected(store)
        try:
            answer = client.get(f"{self._path(store)}/snapshot")
        except UnsupportedError:
            return store.latest_stored_snapshot()
        except MissingResourceError as error:
            if error.resource == "SNAPSHOT":
                return None
            raise TableNotFoundError(error.message, path=store.root) from error
        found = client.member(answer, "snapshot", dict) or {}
        found = client.member(found, "snapshot", dict) or found
        return parse_snapshot(json.dumps(found).encode(), f"{self._table}/snapshot") if found else None

    def publish(self, store: TableStore, snapshot: Snapshot, latest: Snapshot | None) -> bool:
        client, path, table_id = self._connected(store), self._path(store), self._table_id
        if store.branch != self._branch:
            table_id = str(client.get(path).get("id"))
        body: dict[str, Any] = {
            "tableId": table_id,
            "snapshot": json.loads(snapshot_to_json(replace(snapshot, uuid=str(uuid.uuid4())))),
            "statistics": partition_statistics(store, snapshot),
        }
        if latest is not None and latest.uuid is not None:
            body["baseSnapshotUuid"] = latest.uuid
        reason: PaimonError | None = None
        retry = Retry(_PAUSES, attempts=4)
        while True:
            success, error = _sent(client, path, body)
            if success:
                return True
            reason = error if isinstance(error, UnansweredError) else reason
            try:
                there = self._published(store, snapshot)
            except (PaimonError, OSError):
                there = None
                if isinstance(error, AlreadyExistsError):  # of another commit, or of this one that was sent twice
                    reason = reason or error
            if reason is None and error is not None and not there and not isinstance(error, AlreadyExistsError):
                raise _refused(store, error) from None
            if there is not None:
                return there
            if reason is None:
                return False
            if retry.exhausted:
                what = f"the catalog did not say whether snapshot {snapshot.id} was published ({reason})"
                hint = "look at the table's snapshots before writing again; the files were not removed"
                raise CommitOutcomeUnknownError(what, path=store.root, hint=hint) from reason
            retry.next()

    def after_publish(self, store: TableStore, snapshot: Snapshot) -> None:
        """Nothing follows: the server knows it."""

    def was_replaced(self, store: TableStore, snapshot: Snapshot) -> bool:
        """See `SnapshotPublisher`. The server publishes one at a time."""
        return False

    def _published(self, store: TableStore, snapshot: Snapshot) -> bool | None:
        """Whether this snapshot has its number; None when none has. Raises PaimonError, OSError: nobody can say."""
        latest = self.latest_snapshot(store)
        if latest is None or latest.id < snapshot.id:
            return None
        there = latest if latest.id == snapshot.id else store.snapshot(snapshot.id)
        return there.delta_manifest_list == snapshot.delta_manifest_list

    def _path(self, store: TableStore) -> str:
        return self._table if store.branch == MAIN_BRANCH else self._table + segment(f"$branch_{store.branch}")

    def _connected(self, store: TableStore) -> RestClient:
        if self._client is None:
            raise UnsupportedError(
                "this copy of the table is in a process without the catalog's token, and can't reach it",
                path=store.root,
                hint="commit in the process that opened the table",
            )
        return self._client


def _sent(client: RestClient, path: str, body: dict[str, Any]) -> tuple[bool, PaimonError | None]:
    """Whether the server says that it published a snapshot, and else why it may not have; None where it says no."""
    try:
        success = client.member(client.post(f"{path}/commit", body, tries=1), "success", bool)
    except PaimonError as error:
        return False, error
    unsaid = UnansweredError("the answer does not say it", path=client.uri) if success is None else None
    return bool(success), unsaid


def partition_statistics(store: TableStore, snapshot: Snapshot) -> list[dict[str, Any]]:
    """What a snapshot adds to each partition, or takes away, by which the server knows which there are."""
    reader, schema = ManifestReader(store), store.schema(snapshot.schema_id)
    sums = ("row_count", "file_size")
    entries = reader.entries(reader.delta(snapshot), ("kind", "partition", "creation_time", "total_buckets", *sums))
    sign = pc.choose(pc.cast(entries["kind"], pa.int64()), scalar(1, pa.int64()), scalar(-1, pa.int64()))
    table = entries.select(["partition", "creation_time", "total_buckets"]).append_column("files", sign)
    for name in sums:
        table = table.append_column(name, pc.multiply(entries[name], sign))
    most = [("creation_time", "max"), ("total_buckets", "max")]
    by_partition = grouped(table, ["partition"], [*((name, "sum") for name in ("files", *sums)), *most])
    directories = PartitionDirectories(store.io, schema, store.paths.with_options(schema.options))
    return [
        {
            "spec": directories.names(row["partition"]),
            "recordCount": row["row_count_sum"],
            "fileSizeInBytes": row["file_size_sum"],
            "fileCount": row["files_sum"],
            "lastFileCreationTime": local_instant_ms(row["creation_time_max"] or 0),
            "totalBuckets": row["total_buckets_max"],
        }
        for row in by_partition.to_pylist()
    ]


def _refused(store: TableStore, error: PaimonError) -> PaimonError:
    if isinstance(error, MissingResourceError):
        return TableNotFoundError(error.message, path=store.root, hint="it was dropped, or created anew")
    return error
