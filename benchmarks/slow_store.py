"""An S3 store that answers slowly: directories of this machine, read only, as buckets.

Each request waits for the latency and is answered then; requests wait side by side. It does so much less than a whole
S3 server that what is measured is the latency. Without a latency, requests wait until no more come, and are answered
together: how often that is, is how many a client sends in sequence, however busy the machine is.

``python -m benchmarks.slow_store DIRECTORY MILLISECONDS`` prints its address and serves until its input ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_COUNTS = "/-/counts"
_MOMENTS = 40
"""Of 10 ms each. Before a client asks again, as after a broken connection, none of its threads runs for 0.1 s."""
_WHEN = "Thu, 01 Jan 2026 00:00:00 GMT"


@dataclass
class SlowStore:
    """What serves one directory.

    Attributes:
        root: its directories are the buckets.
        latency: seconds that each request waits; 0 to answer them together.
        requests: so many came since counts were asked for last.
        rounds: so often some were answered together since.
    """

    root: Path
    latency: float
    requests: int = 0
    rounds: int = 0
    waiting: int = 0
    passing: int = 0
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := (await reader.readline()).split():
                headers = {}
                while line := (await reader.readline()).strip():
                    name, _, value = line.partition(b":")
                    headers[name.lower().decode()] = value.strip().decode()
                method, target = request[0].decode(), urlsplit(request[1].decode())
                if target.path == _COUNTS:
                    status, head, body = "200 OK", {}, json.dumps(self.counts()).encode()
                else:
                    self.requests += 1
                    await self.wait()
                    status, head, body = self.answer(unquote(target.path), parse_qs(target.query), headers)
                head = {"Content-Length": str(len(body)), "Last-Modified": _WHEN, "ETag": '"0"'} | head
                lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
                writer.write(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + (b"" if method == "HEAD" else body))
                await writer.drain()
                self.passing -= target.path != _COUNTS and not self.latency
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def wait(self) -> None:
        """What a request waits for."""
        if self.latency:
            await asyncio.sleep(self.latency)
            return
        self.waiting += 1
        await self.opened.wait()

    async def answer_together(self) -> None:
        """Let requests pass whenever no more have come for some moments."""
        seen, moments, client = 0, 0, os.getppid()
        while True:
            await asyncio.sleep(0.01)
            quiet = self.requests == seen and self.waiting and not self.passing and not _runs(client)
            moments = moments + 1 if quiet else 0
            seen = self.requests
            if moments >= _MOMENTS:
                self.rounds, self.passing, self.waiting = self.rounds + 1, self.waiting, 0
                opened, self.opened = self.opened, asyncio.Event()
                opened.set()

    def answer(
        self, path: str, query: dict[str, list[str]], headers: dict[str, str]
    ) -> tuple[str, dict[str, str], bytes]:
        """Status, headers and body of a GET."""
        file = self.root / path.strip("/")
        if "list-type" in query:
            return "200 OK", {}, self.listing(file, query.get("prefix", [""])[0])
        if not file.is_file():
            return "404 Not Found", {}, b"<Error><Code>NoSuchKey</Code></Error>"
        data, wanted = file.read_bytes(), headers.get("range", "")
        if not wanted:
            return "200 OK", {}, data
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(len(data) - int(last), 0)
        stop = min(int(last) + 1, len(data)) if first and last else len(data)
        return "206 Partial Content", {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"}, data[start:stop]

    def listing(self, bucket: Path, prefix: str) -> bytes:
        """What lies directly below a prefix that ends with a slash."""
        found = sorted((bucket / prefix).iterdir()) if (bucket / prefix).is_dir() else []
        entries = "".join(
            f"<CommonPrefixes><Prefix>{escape(prefix + entry.name)}/</Prefix></CommonPrefixes>"
            if entry.is_dir()
            else f"<Contents><Key>{escape(prefix + entry.name)}</Key><Size>{entry.stat().st_size}</Size><ETag>0</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for entry in found
        )
        return (
            f"<ListBucketResult><Name>{bucket.name}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(found)}"
            f"</KeyCount><MaxKeys>100000</MaxKeys><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
        ).encode()

    def counts(self) -> dict[str, int]:
        """How many requests there were, and how many of them in sequence."""
        found = {"requests": self.requests, "in_sequence": self.rounds}
        self.requests = self.rounds = 0
        return found


def _runs(process: int) -> bool:
    """Whether a thread of a process has work, though the machine may not let it run: a client that will send more."""
    for thread in Path(f"/proc/{process}/task").glob("*/stat"):
        try:
            state = thread.read_text().rpartition(")")[2].split()[0]
        except OSError:  # the thread has ended
            continue
        if state in "RD":
            return True
    return False


def counts(address: str) -> dict[str, int]:
    """The counts of a store since they were last asked for."""
    with urllib.request.urlopen(address + _COUNTS) as answer:
        return dict(json.load(answer))


def options(address: str) -> dict[str, str]:
    """Storage options that reach a store."""
    return {
        "s3.endpoint": address,
        "s3.access-key": "someone",
        "s3.secret-key": "nothing",
        "s3.region": "us-east-1",
        "s3.path-style-access": "true",
    }


@contextmanager
def serving(root: Path, milliseconds: int) -> Iterator[str]:
    """A store in a process of its own; its address."""
    command = [sys.executable, "-m", "benchmarks.slow_store", str(root.absolute()), str(milliseconds)]
    here = Path(__file__).parents[1]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=here) as process:
        assert process.stdin and process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


async def _serve(root: Path, milliseconds: int) -> None:
    store = SlowStore(root, milliseconds / 1000)
    server = await asyncio.start_server(store.connection, "127.0.0.1", 0, backlog=1000)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    if not milliseconds:
        together = asyncio.create_task(store.answer_together())
        together.add_done_callback(lambda _: os._exit(1))
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # connections that are open don't matter


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
