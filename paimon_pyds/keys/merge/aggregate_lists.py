"""The aggregate functions collect and listagg. (Java: classes FieldCollectAgg and FieldListaggAgg.)"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, pc, to_numpy
from paimon_pyds.keys.merge.equal_values import Codes, Entries, entries_of, equality_codes, from_entries, pair_codes
from paimon_pyds.keys.merge.grouped_rows import Flags, GroupedRows, Positions, flags_buffer, is_valid, take_or_null

_WHITE_SPACE = "\t\n\x0b\f\r\x1c\x1d\x1e\x1f \u1680\u2028\u2029\u205f\u3000" + "".join(
    chr(code) for code in range(0x2000, 0x200B) if code != 0x2007
)
"""What Java takes for white space (``Character.isWhitespace``): no spaces that don't break."""


def collect(values: pa.Array, rows: GroupedRows) -> pa.Array:
    """The elements of all lists in one; each that is taken back removes the oldest one that equals it, if there is any.

    NULL only if nothing but NULL was added.
    """
    entries = entries_of(values)
    kept = np.arange(len(entries.row))
    if rows.retract.any():
        kept = _not_taken_back(entries, rows)
    return _lists(values, rows, entries, kept)


def _not_taken_back(entries: Entries, rows: GroupedRows) -> Positions:
    """The entries that are left: those that are taken back wait in line, those that come too early find nothing."""
    retract = rows.retract[entries.row]
    same = pair_codes([rows.group[entries.row], equality_codes(entries.columns[0])])
    order = np.argsort(same, kind="stable")
    same, step = same[order], np.where(retract[order], -1, 1)
    begins = np.flatnonzero(np.append(True, same[1:] != same[:-1])[: len(same)])
    lengths = np.diff(np.append(begins, len(same)))
    total = np.cumsum(step)
    running = total - np.repeat(total[begins] - step[begins], lengths)
    left = running[begins + lengths - 1] - np.minimum(np.minimum.reduceat(running, begins), 0) if len(begins) else total
    added = np.cumsum(step > 0)
    newer = np.repeat(added[begins + lengths - 1], lengths) - added if len(begins) else added
    return np.sort(order[(step > 0) & (newer < np.repeat(left, lengths))])


def collect_distinct(values: pa.Array, rows: GroupedRows) -> pa.Array:
    """The different elements of all lists, each where it first came; one that is taken back may come again."""
    entries = entries_of(values)
    retract = rows.retract[entries.row]
    same = pair_codes([rows.group[entries.row], equality_codes(entries.columns[0])])
    at = np.arange(len(same))
    gone = np.full(len(same), -1, np.int64)
    gone[same[retract]] = at[retract]
    wanted = at[~retract & (at > gone[same])]
    first = np.full(len(same), -1, np.int64)
    first[same[wanted[::-1]]] = wanted[::-1]
    return _lists(values, rows, entries, np.sort(first[first >= 0]))


def _lists(values: pa.Array, rows: GroupedRows, entries: Entries, kept: Positions) -> pa.Array:
    """Each group's list of the remaining entries; NULL where no list was added."""
    there = np.zeros(rows.count, np.bool_)
    there[rows.group[is_valid(values) & ~rows.retract]] = True
    lengths = np.bincount(rows.group[entries.row[kept]], minlength=rows.count)
    columns = entries.columns if len(kept) == len(entries.row) else entries.take(kept)
    return from_entries(values.type, columns, lengths, there)


def listagg(values: pa.Array, rows: GroupedRows, delimiter: str, *, skips_blanks: bool) -> pa.Array:
    """The texts that are not empty, with the delimiter between them; empty if all texts are, NULL if all are NULL.

    ``skips_blanks``: texts of white space count as NULL, as in Java Paimon 2.1.
    """
    wanted = _wanted(values, skips_blanks)
    return _joined(values, rows, (values.filter(from_numpy(wanted)), rows.group[wanted]), delimiter, skips_blanks)


def listagg_distinct(values: pa.Array, rows: GroupedRows, delimiter: str, *, skips_blanks: bool) -> pa.Array:
    """As `listagg`, but of later texts only the parts between delimiters that are new, and not passed over.

    The oldest text that is not passed over stays as it is, with parts that are empty or equal. (Java splits at blanks
    where the delimiter is empty.)
    """
    wanted = np.flatnonzero(_wanted(values, skips_blanks))
    texts = values.take(from_numpy(wanted))
    group = rows.group[wanted]
    parts = entries_of(pc.split_pattern(texts, pattern=delimiter or " "))
    part, part_group = parts.columns[0], group[parts.row]
    same = pair_codes([part_group, equality_codes(part)])
    is_new = np.zeros(len(same), np.bool_)
    is_new[np.unique(same, return_index=True)[1]] = True
    oldest = rows.first(wanted)[group] == wanted
    later = np.flatnonzero(is_new & ~oldest[parts.row] & _wanted(part, skips_blanks))
    pieces = pa.concat_arrays([texts.filter(from_numpy(oldest)), part.take(from_numpy(later))])
    groups = np.append(group[oldest], part_group[later])
    order = np.argsort(groups, kind="stable")  # the oldest text of a group goes before the parts of others
    joined = _joined(values, rows, (pieces.take(from_numpy(order)), groups[order]), delimiter, skips_blanks)
    split_anew = np.unique(groups[_blurs(pieces, delimiter)])
    if not len(split_anew):
        return joined
    folded = [
        _join_one_by_one(texts.filter(from_numpy(group == one)), delimiter, skips_blanks) for one in split_anew.tolist()
    ]
    at = np.full(rows.count, -1, np.int64)
    at[split_anew] = np.arange(len(split_anew))
    return pc.if_else(from_numpy(at >= 0), take_or_null(array(folded, values.type), at), joined)


def _blurs(pieces: pa.Array, delimiter: str) -> Flags:
    """Which pieces, with the delimiter after them, no longer end where it begins: "x|" and "||" are split as x, |."""
    if not delimiter:
        return np.ones(len(pieces), np.bool_)
    found = np.zeros(len(pieces), np.bool_)
    for length in range(1, len(delimiter)):
        if delimiter.startswith(delimiter[length:]):
            found |= to_numpy(pc.ends_with(pieces, delimiter[:length]))
    return found


def _join_one_by_one(texts: pa.Array, delimiter: str, skips_blanks: bool) -> str:
    """What `listagg_distinct` gives where what is joined has to be split again for each text, as Java does."""
    joined, *later = texts.to_pylist()
    for text in later:
        known = set(joined.split(delimiter or " "))
        for part in text.split(delimiter or " "):
            if part.strip(_WHITE_SPACE if skips_blanks else "") and part not in known:
                known.add(part)
                joined += delimiter + part
    return str(joined)


def _wanted(values: pa.Array, skips_blanks: bool) -> Flags:
    """Which texts are joined: those that are not empty, or not of white space only."""
    if skips_blanks:
        values = pc.utf8_ltrim(values, characters=_WHITE_SPACE)
    return np.asarray(to_numpy(pc.fill_null(pc.binary_length(values), 0)) > 0, np.bool_)


def _joined(
    values: pa.Array, rows: GroupedRows, pieces: tuple[pa.Array, Codes], delimiter: str, skips_blanks: bool
) -> pa.Array:
    """Each group's texts joined; where it has none, its first value that is not NULL, or what it begins with."""
    texts, group = pieces
    lengths = np.bincount(group, minlength=rows.count)
    there = lengths > 0
    offsets = pa.py_buffer(np.append(0, np.cumsum(lengths)).astype(np.int32))
    lists = pa.Array.from_buffers(pa.list_(texts.type), rows.count, [flags_buffer(there), offsets], children=[texts])
    joined = pc.binary_join(lists, delimiter)
    if there.all():
        return joined
    first = rows.first() if skips_blanks else rows.first(np.flatnonzero(is_valid(values)))
    if skips_blanks:
        first = np.where(np.zeros(rows.count, np.bool_) if rows.begun is None else rows.begun, first, -1)
    empty = take_or_null(values, first)
    return pc.if_else(from_numpy(there), joined, empty)
