"""ORC files of the same types as one file in memory: their stripes, which stand for themselves, and one tail.

Source: ORC specification v1 (File Tail).
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_pyds.format.orc.encoding import Field, pack, read_message, write_message
from paimon_pyds.format.orc.tail import MAGIC, OrcTail

_CONTENT_LENGTH, _STRIPES, _USER_METADATA, _ROWS, _STATISTICS = 2, 3, 5, 6, 7
"""Fields of a footer that are written anew or left out."""
_REPLACED = frozenset({_CONTENT_LENGTH, _STRIPES, _USER_METADATA, _ROWS, _STATISTICS})
_FOOTER_LENGTH, _METADATA_LENGTH, _STRIPE_STATISTICS_LENGTH = 1, 5, 7
"""Fields of a postscript."""
_LENGTHS = frozenset({_FOOTER_LENGTH, _METADATA_LENGTH, _STRIPE_STATISTICS_LENGTH})


def one_file(files: Sequence[tuple[bytes, OrcTail]]) -> bytes:
    """A file with the stripes of all, without statistics and checksums.

    ``files``: their bytes and tails, which have the same types, codec and size of blocks.
    """
    parts, position, rows, stripes = [MAGIC], len(MAGIC), 0, list[Field]()
    for data, tail in files:
        rows += tail.row_count
        for stripe in tail.stripes:
            parts.append(data[stripe.offset : stripe.offset + stripe.length])
            lengths = (position, stripe.index_length, stripe.data_length, stripe.footer_length, stripe.rows)
            stripes.append((_STRIPES, 2, write_message([(i, 0, n) for i, n in enumerate(lengths, 1)])))
            position += stripe.length
    first = files[0][1]
    of_footer, of_postscript = ([*read_message(message)] for message in first.messages)
    footer = write_message([
        *(each for each in of_footer if each[0] not in _REPLACED),
        (_CONTENT_LENGTH, 0, position), *stripes, (_ROWS, 0, rows),
    ])  # fmt: skip
    packed = pack(footer, first.codec, first.block_size)
    postscript = write_message(
        [(_FOOTER_LENGTH, 0, len(packed)), *(each for each in of_postscript if each[0] not in _LENGTHS)]
    )
    return b"".join((*parts, packed, postscript, bytes([len(postscript)])))
