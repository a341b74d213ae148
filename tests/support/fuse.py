"""A mounted file system that has neither hard links nor a rename that replaces nothing, and takes no appends: what
volumes are like. It keeps its files in a directory, answers one request at a time, and is a process of its own.

(Source: Linux, include/uapi/linux/fuse.h, protocol 7.31. It is spoken here, as no package of Python brings libfuse.)
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_HEAD, _REPLY = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
_ATTRIBUTES, _INIT = struct.Struct("<6Q10I"), struct.Struct("<IIIIHHIIHHI7I")
_WRITE = 1 << 18
_DIRECT_IO = 1
_SIZE, _MTIME_NOW = 1 << 3, 1 << 8
_NO_REPLY = (2, 42)  # FORGET, BATCH_FORGET
_DETACH = 2


class FileSystem:
    """Answers the kernel's requests; paths are known by numbers."""

    def __init__(self, backing: str) -> None:
        self.paths: dict[int, str] = {1: backing}
        self.nodes: dict[str, int] = {backing: 1}
        self.numbers = itertools.count(2)
        self.listings: dict[int, list[bytes]] = {}
        self.handlers: dict[int, Callable[[int, bytes], bytes]] = {
            1: self.lookup, 3: self.attributes, 4: self.set_attributes, 9: self.make_dir, 10: self.unlink,
            11: self.remove_dir, 12: self.rename, 14: self.open, 15: self.read, 16: self.write, 17: self.statistics,
            18: self.release, 20: self.sync, 25: self.nothing, 26: self.init, 27: self.open_dir, 28: self.read_dir,
            29: self.release_dir, 30: self.nothing, 34: self.nothing, 35: self.create,
        }  # fmt: skip

    def answer(self, opcode: int, node: int, body: bytes) -> tuple[int, bytes]:
        """The error, and the answer. LINK, SYMLINK, RENAME2 and all else are not there."""
        handler = self.handlers.get(opcode)
        if handler is None:
            return errno.EPERM if opcode in (6, 8, 13) else errno.ENOSYS, b""
        try:
            return 0, handler(node, body)
        except OSError as error:
            return error.errno or errno.EIO, b""

    def path(self, node: int) -> str:
        if node not in self.paths:
            raise FileNotFoundError(errno.ENOENT, "gone")
        return self.paths[node]

    def child(self, node: int, name: bytes) -> str:
        return f"{self.path(node)}/{os.fsdecode(name.rstrip(bytes(1)))}"

    def entry(self, path: str) -> bytes:
        info = os.lstat(path)
        if path not in self.nodes:
            self.nodes[path] = next(self.numbers)
            self.paths[self.nodes[path]] = path
        node = self.nodes[path]
        return struct.pack("<QQQQII", node, 0, 0, 0, 0, 0) + self.packed(info, node)

    def packed(self, info: os.stat_result, node: int) -> bytes:
        times = (info.st_atime_ns, info.st_mtime_ns, info.st_ctime_ns)
        seconds, nanos = zip(*(divmod(time, 10**9) for time in times), strict=True)
        return _ATTRIBUTES.pack(
            node, info.st_size, info.st_blocks, *seconds, *nanos, info.st_mode, info.st_nlink, info.st_uid,
            info.st_gid, 0, 4096, 0,
        )  # fmt: skip

    def forget(self, path: str) -> None:
        """A path is gone: what has it next is another file."""
        self.paths.pop(self.nodes.pop(path, 0), None)

    def init(self, node: int, body: bytes) -> bytes:
        return _INIT.pack(7, 31, 1 << 16, 0, 12, 9, _WRITE, 1, 0, 0, 0, *[0] * 7)

    def nothing(self, node: int, body: bytes) -> bytes:
        return b""

    def lookup(self, node: int, body: bytes) -> bytes:
        return self.entry(self.child(node, body))

    def attributes(self, node: int, body: bytes) -> bytes:
        flags, _, handle = struct.unpack_from("<IIQ", body)
        info = os.fstat(handle) if flags & 1 else os.lstat(self.path(node))
        return struct.pack("<QII", 0, 0, 0) + self.packed(info, node)

    def set_attributes(self, node: int, body: bytes) -> bytes:
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        if valid & _SIZE and size:
            raise OSError(errno.ENOTSUP, "no random writes")
        if valid & _SIZE:
            os.truncate(self.path(node), 0)
        if valid & _MTIME_NOW:
            os.utime(self.path(node))
        return struct.pack("<QII", 0, 0, 0) + self.packed(os.lstat(self.path(node)), node)

    def make_dir(self, node: int, body: bytes) -> bytes:
        path = self.child(node, body[8:])
        os.mkdir(path, struct.unpack_from("<I", body)[0] & 0o7777)
        return self.entry(path)

    def unlink(self, node: int, body: bytes) -> bytes:
        os.unlink(self.child(node, body))
        self.forget(self.child(node, body))
        return b""

    def remove_dir(self, node: int, body: bytes) -> bytes:
        os.rmdir(self.child(node, body))
        self.forget(self.child(node, body))
        return b""

    def rename(self, node: int, body: bytes) -> bytes:
        old, new = body[8:].rstrip(bytes(1)).split(bytes(1))
        source, target = self.child(node, old), self.child(struct.unpack_from("<Q", body)[0], new)
        os.rename(source, target)
        self.forget(target)
        for path in [path for path in self.nodes if path == source or path.startswith(f"{source}/")]:
            number = self.nodes.pop(path)
            self.paths[number] = moved = target + path[len(source) :]
            self.nodes[moved] = number
        return b""

    def open(self, node: int, body: bytes) -> bytes:
        flags = struct.unpack_from("<I", body)[0]
        if flags & os.O_APPEND:
            raise OSError(errno.ENOTSUP, "no appends")
        return struct.pack("<QII", os.open(self.path(node), flags & ~os.O_NOFOLLOW), _DIRECT_IO, 0)

    def create(self, node: int, body: bytes) -> bytes:
        flags, mode = struct.unpack_from("<II", body)
        path = self.child(node, body[16:])
        handle = os.open(path, flags | os.O_CREAT, mode & 0o7777)
        return self.entry(path) + struct.pack("<QII", handle, _DIRECT_IO, 0)

    def read(self, node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        return os.pread(handle, size, offset)

    def write(self, node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        if offset != os.fstat(handle).st_size:
            raise OSError(errno.ENOTSUP, "no random writes")
        return struct.pack("<II", os.pwrite(handle, body[40 : 40 + size], offset), 0)

    def sync(self, node: int, body: bytes) -> bytes:
        os.fsync(struct.unpack_from("<Q", body)[0])
        return b""

    def release(self, node: int, body: bytes) -> bytes:
        os.close(struct.unpack_from("<Q", body)[0])
        return b""

    def open_dir(self, node: int, body: bytes) -> bytes:
        number = next(self.numbers)
        names = [b".", b"..", *sorted(os.fsencode(name) for name in os.listdir(self.path(node)))]
        self.listings[number] = names
        return struct.pack("<QII", number, 0, 0)

    def read_dir(self, node: int, body: bytes) -> bytes:
        number, offset, size = struct.unpack_from("<QQI", body)
        found = b""
        for place, name in enumerate(self.listings[number][offset:], offset + 1):
            entry = struct.pack("<QQII", place, place, len(name), 0) + name
            entry += bytes(-len(entry) % 8)
            if len(found) + len(entry) > size:
                break
            found += entry
        return found

    def release_dir(self, node: int, body: bytes) -> bytes:
        del self.listings[struct.unpack_from("<Q", body)[0]]
        return b""

    def statistics(self, node: int, body: bytes) -> bytes:
        return struct.pack("<5Q10I", 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 4096, 255, 4096, *[0] * 7)


def serve(mount_point: str, backing: str) -> None:
    """Mount, say so, and answer until it is unmounted."""
    device = os.open("/dev/fuse", os.O_RDWR)
    mode = stat.S_IFDIR
    options = f"fd={device},rootmode={mode:o},user_id={os.getuid()},group_id={os.getgid()}"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"volume", os.fsencode(mount_point), b"fuse.volume", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
    system = FileSystem(backing)
    print("mounted", flush=True)
    while True:
        try:
            request = os.read(device, _WRITE + (1 << 16))
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            if error.errno in (errno.EINTR, errno.ENOENT):
                continue
            raise
        _, opcode, unique, node, *_ = _HEAD.unpack_from(request)
        if opcode in _NO_REPLY:
            continue
        error, answer = system.answer(opcode, node, request[_HEAD.size :])
        try:
            os.write(device, _REPLY.pack(_REPLY.size + len(answer), -error, unique) + answer)
        except FileNotFoundError:  # who asked was killed
            continue


@contextmanager
def volume(directory: Path) -> Iterator[Path | None]:
    """Where the file system is mounted; None where this machine does not allow it."""
    place, backing = directory / "volume", directory / "backing"
    place.mkdir()
    backing.mkdir()
    process = subprocess.Popen(
        [sys.executable, __file__, str(place), str(backing)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    mounted = process.stdout.readline() == b"mounted\n"
    try:
        yield place if mounted else None
    finally:
        if mounted:
            ctypes.CDLL(None).umount2(os.fsencode(place), _DETACH)
        process.kill()  # whoever still has a file of it open would keep it alive
        process.wait()


if __name__ == "__main__":
    serve(*sys.argv[1:])
