#!/usr/bin/env bash
# One would guess: Spark's unix_timestamp(t) takes a TIMESTAMP_NTZ by the session's time zone, as CAST(t AS TIMESTAMP),
#   date_format(t, …), comparisons with a TIMESTAMP and unix_timestamp of the same value as a text do; and that it counts
#   seconds as unix_seconds does.
# What happens: unix_timestamp and to_unix_timestamp take the wall-clock time for one of UTC, whatever the session's zone
#   is. In Los Angeles unix_timestamp(t) and unix_timestamp(CAST(t AS TIMESTAMP)) are seven hours apart. Before 1970 it
#   cuts fractions towards zero, where unix_seconds takes the second before.
# Why it matters: a filter such as unix_timestamp(t) > 1719835200 picks other rows for a column of TIMESTAMP_NTZ, which
#   is what Paimon's TIMESTAMP is, than for the same times in a column of TIMESTAMP.
set -euo pipefail
home=$(mktemp -d); trap 'rm -rf "$home"' EXIT
python3 -m venv "$home/venv"
"$home/venv/bin/pip" install --quiet --disable-pip-version-check pyspark==4.0.1
cat > "$home/clock.py" <<'PY'
import pyspark
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
found = spark.sql("""
    SELECT unix_timestamp(t) AS plain, unix_timestamp(CAST(t AS TIMESTAMP)) AS cast, unix_timestamp(CAST(t AS STRING)) AS text,
        hour(t) = hour(CAST(t AS TIMESTAMP)) AS same_hour, unix_timestamp(old) AS old, unix_seconds(old) AS old_seconds
    FROM (SELECT TIMESTAMP_NTZ '2024-07-01 12:00:00' AS t, TIMESTAMP '1969-12-31 15:59:58.5' AS old)
""").first()
print(f"pyspark {pyspark.__version__}: {found.asDict()}")
spark.stop()
apart = found.cast - found.plain == 7 * 3600 and found.text == found.cast and found.same_hour
raise SystemExit(not (apart and (found.old, found.old_seconds) == (-1, -2)))
PY
"$home/venv/bin/python" "$home/clock.py" 2> /dev/null
