"""Streams: the changes of a table after a position, planned and read.

`ChangeStream` is the way in, for `table.follow` and for Spark alike::

    stream = ChangeStream(store, where="amount > 10", options={"scan.mode": "latest"}, kind_column="kind")
    position = stream.start()                       # resolved once; all that has to be stored: to_json, from_json
    end = stream.end(position, Limits(max_rows=…), newest)   # == position while there is nothing new
    for split in stream.splits(position, end):      # [] for equal positions; each pickles
        for batch in split.read(): …                # Arrow, with the schema stream.arrow_schema
    stream.confirm(end)                             # once the caller has stored that it processed all up to there

``stream.newest(position)`` is where a run ends that does not wait for later snapshots, and
``stream.is_finished(position)`` says that the stream has ended (``scan.bounded.watermark``). A stream that goes on is
given the position, or the ``schema_id`` of columns that somebody else fixed; newer snapshots are mapped to these.
``splits(…, by_bucket=True)`` gives splits that may be read side by side where rows have keys.

What a snapshot brings (source: Java Paimon 1.4, class DataTableStreamScan):

- append tables: the files that APPEND snapshots add; compactions bring nothing; overwrites what they add, if
  ``streaming-read-append-overwrite`` is on.
- tables with a primary key and a ``changelog-producer``: the changelog files of any snapshot, also those of
  ``changelog/`` after snapshots have expired. Without a producer: what APPEND snapshots wrote, each row with its kind.
  Overwrites, if ``streaming-read-overwrite`` is on: the rows that they removed as -D, then those that they added.
"""

from __future__ import annotations

from paimon_pyds.engine.stream.changes import ChangeStream
from paimon_pyds.engine.stream.limits import NO_LIMITS, Limits
from paimon_pyds.engine.stream.position import StreamPosition
from paimon_pyds.engine.stream.read import ChangeSplit, place_of

__all__ = ["NO_LIMITS", "ChangeSplit", "ChangeStream", "Limits", "StreamPosition", "place_of"]
