"""The lock of a table in a Hive metastore, which commits hold meanwhile, as Java's do.

(Source: Java Paimon 1.4, class HiveCatalogLock.)
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import redact
from paimon_pyds.catalog.hive.client import MetastoreClient
from paimon_pyds.catalog.hive.metastore import MetastoreError, UnansweredRequestError, structs, user_name
from paimon_pyds.catalog.hive.settings import seconds_of
from paimon_pyds.catalog.identifier import Identifier
from paimon_pyds.errors import CommitError, CommitOutcomeUnknownError, PaimonError
from paimon_pyds.metadata.paths import MAIN_BRANCH

_log = logging.getLogger("paimon_pyds.catalog")
_BEAT_SECONDS, FIRST_SECONDS = 60.0, 5.0
"""Between signs of life of a lock, and until the first: a metastore removes one after ``hive.txn.timeout`` without,
which are 300 seconds by default."""
_TIMEOUT = "hive.txn.timeout"
_PAUSES = Pauses(0.2, 2.0)
_TRIES = 4
"""Of a request for a lock."""


class _HeldHere(threading.local):
    """The locks that this thread holds, and whether each still holds."""

    def __init__(self) -> None:
        self.holds: dict[tuple[str, tuple[str, str]], Callable[[], bool]] = {}


_held_here = _HeldHere()


@dataclass(frozen=True, slots=True)
class MetastoreLock:
    """The lock of a table in a metastore, which one writer holds at a time; the metastore removes those without a sign
    of life for some minutes.

    ``name``: of the database and the table.
    """

    client: MetastoreClient
    name: tuple[str, str]

    @contextmanager
    def held(self) -> Iterator[Callable[[], bool]]:
        """Hold the lock, which this thread may hold already; gives a function that says whether it still holds.
        Raises CommitError when others hold it for too long."""
        key = (self.client.uri, self.name)
        holds = _held_here.holds
        if key in holds:
            yield holds[key]
            return
        lock_id = self._acquire()
        ended = threading.Event()
        holds[key] = lambda: self._beat(lock_id)
        threading.Thread(target=self._keep, args=(lock_id, ended), daemon=True, name="hive-lock").start()
        # Otherwise what was sent may have its effect yet: the lock stays until it expires
        release = False
        try:
            yield holds[key]
            release = True
        except Exception as error:
            release = not isinstance(error, CommitOutcomeUnknownError)
            raise
        finally:
            ended.set()
            del holds[key]
            if release:
                self._release(lock_id)

    def _acquire(self) -> int:
        hive, (timeout, longest) = structs(), self.client.settings.waits
        database, table = self.name
        component = hive.LockComponent(
            type=hive.LockType.EXCLUSIVE, level=hive.LockLevel.TABLE, dbname=database, tablename=table,
            operationType=None,
        )  # fmt: skip
        request = hive.LockRequest(
            component=[component], user=user_name(), hostname=socket.gethostname(), agentInfo=f"paimon_pyds {uuid4()}"
        )
        retry = Retry(Pauses(0.1, longest), seconds=timeout)
        answer = self._requested(request)
        lock_id = int(answer.lockid)
        try:
            while answer.state == hive.LockState.WAITING:
                what = f"the lock {database}.{table} was not free within {timeout:g} seconds"
                hint = "another job holds it; lock-acquire-timeout says for how long it may (SHOW LOCKS in Hive)"
                retry.again(CommitError(what, path=self.client.uri, hint=hint))
                answer = self._asked("check_lock", hive.CheckLockRequest(lockid=lock_id))
            if answer.state != hive.LockState.ACQUIRED:
                state = hive.LockState._VALUES_TO_NAMES.get(answer.state, answer.state)
                raise CommitError(
                    f"the metastore does not give the lock {database}.{table}: its state is {state}",
                    path=self.client.uri,
                    hint="try again: the metastore or another program took the lock away",
                )
        except BaseException:
            self._release(lock_id)
            raise
        return lock_id

    def _requested(self, request: Any) -> Any:
        """The response to a request for the lock. If none came, the lock may be there all the same, and nobody else
        would give it back."""
        retry = Retry(_PAUSES, attempts=_TRIES)
        while True:
            try:
                return self._asked("lock", request, again=False)
            except UnansweredRequestError as error:
                database, table = self.name
                wanted = structs().ShowLocksRequest(dbname=database, tablename=table)
                found = (one for one in self._asked("show_locks", wanted).locks if one.agentInfo == request.agentInfo)
                if (own := next(found, None)) is not None:
                    return structs().LockResponse(lockid=own.lockid, state=own.state)
                retry.again(error)

    def _asked(self, request: str, argument: Any, *, again: bool = True) -> Any:
        """The response to a request about locks. Raises CommitError: the metastore has none, or refuses it."""
        try:
            return self.client.call(request, argument, again=again)
        except MetastoreError as error:
            raise CommitError(
                f"the metastore gives no lock ({error.kind})",
                path=self.client.uri,
                hint="its database needs Hive's tables of transactions; lock.enabled=false commits without a lock",
            ) from error

    def _keep(self, lock_id: int, ended: threading.Event) -> None:
        """Give signs of life until the lock is released, three in the time after which the metastore removes it."""
        pause = FIRST_SECONDS
        while not ended.wait(pause):
            if pause == FIRST_SECONDS:
                pause = _BEAT_SECONDS
                with suppress(PaimonError, OSError):
                    longest = self.client.call("get_config_value", _TIMEOUT, "300s")
                    pause = min(pause, seconds_of(_TIMEOUT, longest) / 3)
            self._beat(lock_id)

    def _beat(self, lock_id: int) -> bool:
        """Give a sign of life; whether the lock holds."""
        try:
            self.client.call("heartbeat", structs().HeartbeatRequest(lockid=lock_id))
        except (PaimonError, OSError):
            return False
        return True

    def _release(self, lock_id: int) -> None:
        """Give the lock back. A published snapshot stays published: whatever fails here is logged, and the lock
        expires."""
        try:
            self.client.call("unlock", structs().UnlockRequest(lockid=lock_id))
        except Exception as error:  # noqa: BLE001 - raised, it would have the files of a snapshot removed
            _log.warning("the lock %s.%s stays until it expires: %s", *self.name, redact(str(error)))


def lock_of(client: MetastoreClient, identifier: Identifier) -> MetastoreLock:
    """The lock of a table, or of a branch."""
    branch = None if identifier.branch == MAIN_BRANCH else identifier.branch
    return MetastoreLock(client, (identifier.database, replace(identifier, branch=branch).object_name))
