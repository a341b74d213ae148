#!/usr/bin/env bash
# One would guess: a DECIMAL(20, 2) that pypaimon wrote is found by Java Paimon by `=`, as it is found by pypaimon.
# What happens: Java gives no row and no error for `d = 1.25`, though the row is there when it reads all. pypaimon writes its
#   Parquet files with pyarrow, which puts such values into a dictionary as bytes of a fixed length. Java looks in that
#   dictionary for the shortest bytes of the number, finds none, and leaves the row group out. Java's own files have no
#   dictionary for these columns. (Java's filters leave out files and row groups; `id = 1` shows that both rows are in one.)
# Why it matters: Flink and Spark jobs lose rows of tables that Python fills. Writers here use no dictionary for such columns,
#   and migrations refuse files that have one.
set -euo pipefail
PAIMON=1.4.2 HADOOP=3.4.1 SLF4J=1.7.36 PYPAIMON=2.1.0
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "pypaimon==$PYPAIMON"
for artifact in org.apache.paimon:paimon-bundle:$PAIMON org.apache.hadoop:hadoop-client-{api,runtime}:$HADOOP \
  org.slf4j:slf4j-api:$SLF4J; do
  mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:2.8:get -Dtransitive=false -Dartifact="$artifact" \
    -Ddest="$work/"
done
cat >"$work/fill.py" <<'PY'
import sys
from decimal import Decimal
from importlib.metadata import version

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

COLUMNS = pa.schema([("id", pa.int32()), ("d", pa.decimal128(20, 2))])
catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("d", True)
catalog.create_table("d.t", Schema.from_pyarrow_schema(COLUMNS), False)
table = catalog.get_table("d.t")
builder = table.new_batch_write_builder()
write = builder.new_write()
rows = {"id": [1, 2], "d": [Decimal("1.25"), Decimal("300.50")]}
write.write_arrow(pa.table(rows, schema=COLUMNS))
made = builder.new_commit()
made.commit(write.prepare_commit())
made.close()
read = table.new_read_builder()
where = read.new_predicate_builder().equal("d", Decimal("1.25"))
read = read.with_filter(where)
found = read.new_read().to_arrow(read.new_scan().plan().splits())
print("pypaimon", version("pypaimon"), "pyarrow", pa.__version__, "finds", found["id"].to_pylist())
PY
cat >"$work/Find.java" <<'JAVA'
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.source.ReadBuilder;

public class Find {
    static FileStoreTable table;

    static List<Integer> ids(Predicate filter) throws Exception {
        List<Integer> found = new ArrayList<>();
        ReadBuilder builder = table.newReadBuilder().withFilter(filter);
        builder.newRead().createReader(builder.newScan().plan()).forEachRemaining(row -> found.add(row.getInt(0)));
        return found;
    }

    public static void main(String[] args) throws Exception {
        table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(args[0]));
        PredicateBuilder of = new PredicateBuilder(table.rowType());
        Decimal value = Decimal.fromBigDecimal(new BigDecimal("1.25"), 20, 2);
        System.out.println("all rows: " + ids(of.isNotNull(0)) + ", id = 1: " + ids(of.equal(0, 1))
                + ", d = 1.25: " + ids(of.equal(1, value)));
    }
}
JAVA
"$work/venv/bin/python" "$work/fill.py" "$work/warehouse"
javac -nowarn -cp "$work/*" -d "$work" "$work/Find.java"
found=$(java -cp "$work:$work/*" Find "$work/warehouse/d.db/t" 2>/dev/null)
echo "Java Paimon $PAIMON: $found"
[ "$found" = "all rows: [1, 2], id = 1: [1, 2], d = 1.25: []" ]
