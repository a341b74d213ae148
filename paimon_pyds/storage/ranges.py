"""Reading several ranges of one file in few requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paimon_pyds.errors import CorruptFileError

__all__ = ["check_range", "read_coalesced"]


def check_range(path: str, offset: int, length: int, size: int) -> None:
    """Raises CorruptFileError unless the range lies inside a file of ``size`` bytes."""
    if offset < 0 or length < 0 or offset + length > size:
        raise CorruptFileError(
            f"{length} bytes wanted at {offset}, the file has {size}: it is truncated or something points past its end",
            path=path,
            offset=offset,
        )


def read_coalesced(
    read: Callable[[int, int], bytes], ranges: Sequence[tuple[int, int]], gap: int, max_request: int
) -> list[bytes]:
    """The bytes of each (offset, length), in the order given.

    Ranges at most ``gap`` bytes apart are read in one request of at most ``max_request`` bytes (a single range may be
    longer). Ranges may overlap and come in any order.
    """
    if len(ranges) == 1:
        return [read(*ranges[0])]
    order = sorted(range(len(ranges)), key=lambda i: ranges[i])
    result = [b""] * len(ranges)
    group: list[int] = []
    start = stop = 0
    for i in order:
        offset, length = ranges[i]
        end = max(stop, offset + length)
        if group and (offset - stop > gap or end - start > max_request):
            _read_group(read, ranges, group, start, stop, result)
            group = []
        if not group:
            start, end = offset, offset + length
        group.append(i)
        stop = end
    if group:
        _read_group(read, ranges, group, start, stop, result)
    return result


def _read_group(
    read: Callable[[int, int], bytes],
    ranges: Sequence[tuple[int, int]],
    group: Sequence[int],
    start: int,
    stop: int,
    result: list[bytes],
) -> None:
    data = read(start, stop - start)
    for i in group:
        offset, length = ranges[i]
        result[i] = data if len(group) == 1 else data[offset - start : offset - start + length]
