"""A stripe of an ORC file as a file of its own, whose writer's time zone is UTC.

pyarrow looks a writer's time zone up in the time zone database of the machine, and what that does not have (Java's
``GMT+08:00``) is an error or, in old versions, the end of the process. So the zone is not shown to it: it reads a file
of one stripe that names UTC, and `orc_zones` reckons with the zone afterwards.
"""

from __future__ import annotations

import io as _io
from typing import Any

from paimon_pyds.formats.orc.compression import pack
from paimon_pyds.formats.orc.messages import Field, read_message, write_message
from paimon_pyds.formats.orc.tail import MAGIC, OrcTail, Stripe, StripeFooter

__all__ = ["SingleStripeFile"]

_STRIPES, _ROWS, _CONTENT = 3, 6, 2
"""Fields of the file's footer."""


class SingleStripeFile(_io.RawIOBase):
    """The file: its magic, index and data of the stripe as they lie in ``source``, new footers."""

    def __init__(self, source: Any, tail: OrcTail, stripe: Stripe, footer: StripeFooter) -> None:
        self._source = source
        self._start = stripe.offset
        self._body = stripe.index_length + stripe.data_length
        self._end = _ending(tail, stripe, footer)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        """Bytes of the file."""
        return len(MAGIC) + self._body + len(self._end)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, offset + (0, self._at, self.size())[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        stop = self.size() if size is None or size < 0 else min(self._at + size, self.size())
        first = len(MAGIC)
        last = first + self._body
        parts = [MAGIC[self._at : stop]]
        start, end = max(self._at, first), min(stop, last)
        if start < end:
            self._source.seek(self._start + start - first)
            parts.append(self._source.read(end - start))
        if stop > last:
            parts.append(self._end[max(0, self._at - last) : stop - last])
        data = b"".join(parts)
        self._at += len(data)
        return data


def _ending(tail: OrcTail, stripe: Stripe, footer: StripeFooter) -> bytes:
    """The stripe's footer, the file's, and the postscript."""
    own: list[Field] = [f for f in read_message(footer.message) if f[0] != 3]
    stripe_footer = pack(write_message([*own, (3, 2, b"UTC")]), tail.codec, tail.block_size)
    lengths = (len(MAGIC), stripe.index_length, stripe.data_length, len(stripe_footer), stripe.rows)
    information = write_message((number, 0, value) for number, value in enumerate(lengths, 1))
    others = [f for f in read_message(tail.messages[0]) if f[0] not in (_STRIPES, _ROWS, _CONTENT)]
    content = stripe.index_length + stripe.data_length + len(stripe_footer)
    fields: list[Field] = [*others, (_CONTENT, 0, content), (_STRIPES, 2, information), (_ROWS, 0, stripe.rows)]
    file_footer = pack(write_message(fields), tail.codec, tail.block_size)
    changed = {1: len(file_footer), 5: 0}
    script = write_message((n, w, changed.get(n, v)) for n, w, v in read_message(tail.messages[1]))
    return stripe_footer + file_footer + script + bytes([len(script)])
