"""The options of a stream: those that are given, over those of the table; and which tables have streams at all."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_pyds.base.options import TableOptions, check_known, check_readable, check_shape
from paimon_pyds.base.options.option import option_texts
from paimon_pyds.base.options.times import zone_given
from paimon_pyds.base.zones import default_zone
from paimon_pyds.engine.scan.travel import INCREMENTAL_OPTIONS, TIME_TRAVEL_OPTIONS, state_options
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.metadata.paths import POSTPONE_BUCKET
from paimon_pyds.metadata.schema import TableSchema

CREATED = "scan.file-creation-time-millis"
_START = ("scan.mode", CREATED, *TIME_TRAVEL_OPTIONS)
"""The options that say where a stream starts, and a scan what it reads."""
_WITHOUT_CHANGES = {"partial-update": "Partial update", "aggregation": "Pre-aggregate", "first-row": "First row"}


class StreamOptions:
    """The options of a stream.

    Attributes:
        start: those that say where it starts, by their present names.
        all: the table's, with the given ones, without those that say what a read starts from.
        zone: the time zone of texts without one.

    ``schema``: the table's newest. ``given``: of the stream, such as ``consumer-id``; ``timezone`` is among them.

    Raises:
        OptionError: an unknown or contradictory option.
        UnsupportedError: a table, or an option, of which there are no streams.
    """

    def __init__(self, schema: TableSchema, given: Mapping[str, object] | None, path: str) -> None:
        options = option_texts(given or {})
        self.zone = zone_given(options) or default_zone()
        check_known(options, ("timezone",), own=False)
        chosen = state_options(schema.options, options)
        self.start = {key: chosen[key] for key in _START if key in chosen}
        for source in (schema.options, options):  # the given one wins
            if CREATED in source:
                self.start[CREATED] = source[CREATED]
        for key in INCREMENTAL_OPTIONS:
            if key in chosen:
                raise OptionError(
                    f"a stream can't be read with {key}", hint="leave it out: a stream reads what follows"
                )
        rest = {key: text for key, text in options.items() if key not in {*_START, "timezone"}}
        stored = {key: text for key, text in schema.options.items() if key not in _START}
        self.all = TableOptions({**stored, **rest})
        check_readable(_Plain(schema, stored), rest)
        check_shape(schema, rest, path, reads=True)
        check_streams(schema, self.all)
        if self.all.get("postpone.merge-on-read"):
            raise UnsupportedError(
                "postpone.merge-on-read is for batch reads only",
                path=path,
                hint="leave it out of the stream: false",
                feature="postpone",
            )


class _Plain:
    """A schema with some of its options."""

    def __init__(self, schema: TableSchema, options: Mapping[str, str]) -> None:
        self.fields, self.partition_keys, self.primary_keys = schema.fields, schema.partition_keys, schema.primary_keys
        self.options = options


def check_streams(schema: TableSchema, options: TableOptions) -> None:
    """Raise UnsupportedError or OptionError where the table's snapshots do not say what changed.

    (Source: Java Paimon 1.4, classes TableScanUtils and SchemaValidation.)
    """
    if options.get("type") == "format-table":
        raise UnsupportedError(
            "a format table has no snapshots that a stream could follow", hint="scan it", feature="format-tables"
        )
    producer, engine = options.get("changelog-producer"), options.get("merge-engine")
    if not schema.primary_keys:
        if options.get("streaming-read-overwrite"):
            raise OptionError(
                "streaming-read-overwrite is for tables with a primary key",
                hint="streaming-read-append-overwrite=true gives the files that overwrites add",
            )
        return
    if producer == "none" and engine in _WITHOUT_CHANGES:
        raise UnsupportedError(
            f"{_WITHOUT_CHANGES[engine]} streaming reading is not supported: files hold what was written, not what "
            f"became of it (merge-engine={engine})",
            hint="alter the table: changelog-producer=lookup or full-compaction keeps changes; input is also "
            "supported, but returns what was written",
        )
    if producer in ("lookup", "full-compaction") and options.get("streaming-read-overwrite"):
        raise OptionError(
            f"streaming-read-overwrite with changelog-producer={producer} would give changes twice", hint="leave it out"
        )
    if producer == "none" and int(options.get("bucket")) == POSTPONE_BUCKET and options.get("streaming-read-overwrite"):
        raise UnsupportedError(
            "streaming-read-overwrite can't be read of a table with bucket=-2: what an overwrite adds may wait for its "
            "bucket",
            hint="leave it out, or alter the table: changelog-producer=input keeps what was written",
        )
