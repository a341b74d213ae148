"""Writers, most of them there to be killed. Importable, so that a fork server can start them in milliseconds."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from threading import Barrier
from typing import Any

from paimon_pyds.errors import StorageError

PRELOAD = ["paimon_pyds.table", "paimon_pyds.format.parquet.writer", "paimon_pyds.scan", "support.victims"]
ROWS = 500


def fork_server(*more: str) -> ForkServerContext:
    """Starts processes that need not import what most of them do; a spawned one takes half a second for that."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([*PRELOAD, *more])
    return server


def started(
    work: Callable[..., None], arguments: Sequence[tuple[Any, ...]], *preload: str
) -> tuple[list[ForkServerProcess], list[Connection]]:
    """Processes, and the ends of the pipes that are their last arguments. Arguments as those of `victims`."""
    server = fork_server(*preload)
    pipes = [server.Pipe(duplex=False) for _ in arguments]
    running = [server.Process(target=work, args=(*own, say)) for own, (_, say) in zip(arguments, pipes, strict=True)]
    for process in running:
        process.start()
    for _, say in pipes:
        say.close()
    return running, [hear for hear, _ in pipes]


@contextmanager
def victims(
    work: Callable[..., None], arguments: Sequence[tuple[Any, ...]], *preload: str
) -> Iterator[list[Connection]]:
    """Processes that are killed at the end; the pipes through which they speak, each of which has said b"r" already.

    Args:
        work: of a module, so that it can be found by its name; its last argument is the end of a pipe.
        arguments: of each process.
        preload: modules that all need, besides `PRELOAD`.
    """
    running, heard = started(work, arguments, *preload)
    assert all(hear.recv_bytes() == b"r" for hear in heard)
    try:
        yield heard
    finally:
        for victim in running:
            victim.kill()
        for victim in running:
            victim.join()


def append_each(path: Path, worker: int, commits: int, ready: Barrier) -> None:
    """So many appends, which begin when all workers are there."""
    import pyarrow as pa

    import paimon_pyds as pp

    table = pp.Table.open(path)
    ready.wait(120)
    for i in range(commits):
        table.append(pa.table({"worker": [worker] * 3, "commit": [i] * 3, "row": [0, 1, 2]}))


def write_for_ever(path: Path, number: int, say: Connection) -> None:
    """Append, and at every third turn overwrite, until killed; a byte down the pipe for the start and each commit."""
    import pyarrow as pa

    import paimon_pyds as pp

    def batch(worker: int) -> pa.Table:
        return pa.table({"worker": [worker] * ROWS, "commit": [0] * ROWS, "row": list(range(ROWS))})

    table = pp.Table.open(path)
    scratch = pp.Table.create(f"{path}-{number}", table.arrow_schema, options=table.options)
    scratch.append(batch(0))  # everything is imported and warm when the kill can come
    say.send_bytes(b"r")
    while True:
        rows = batch(number)
        if number % 3 == 2:
            table.overwrite(rows)
        else:
            table.append(rows)
        say.send_bytes(b"d")
        number += 1


def insert_for_ever(path: Path, keys: int, say: Connection) -> None:
    """Merge keys that are new, ``keys`` of them at a time and half of them once more, until killed.

    All victims begin with the first key that is missing, so that they merge the same ones; a byte down the pipe for the
    start and each merge.
    """
    import pyarrow as pa

    import paimon_pyds as pp

    table = pp.Table.open(path)
    say.send_bytes(b"r")
    while True:
        first = table.max("id") + 1 - keys // 2
        rows = pa.table({"id": pa.array(range(first, first + keys), pa.int64())})
        table.merge(rows, ["id"], when_not_matched="insert")
        say.send_bytes(b"d")


def upsert_for_ever(path: Path, number: int, say: Connection) -> None:
    """Write old and new keys to dynamic buckets until killed; a byte down the pipe for the start and each commit."""
    import pyarrow as pa

    import paimon_pyds as pp
    from paimon_pyds.errors import CommitConflictError

    table = pp.Table.open(path)
    say.send_bytes(b"r")
    while True:
        first = table.max("k") or 0
        keys = pa.array(range(max(0, first - ROWS), first + ROWS // 10), pa.int64())
        try:
            table.append(pa.table({"k": keys, "v": pa.array([number] * len(keys), pa.int64())}))
        except CommitConflictError:
            continue
        say.send_bytes(b"d")


def error_in_a_fork(call: Callable[[], object]) -> str:
    """What the StorageError says that a call raises in a forked process; empty without one."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            call()
        except StorageError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    with open(read, encoding="utf-8") as said:
        return said.read()
