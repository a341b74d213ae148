#!/usr/bin/env bash
# One would guess: pypaimon-rust reads a table with row tracking after Java Paimon has compacted it.
# What happens: it reads the table before, and refuses it from then on. Java's rewritten files have their row ids in a
#   column and no first row id in the manifest, and pypaimon-rust wants a first row id of each file. Java reads on.
# Why it matters: once anybody compacts or updates such a table, pypaimon-rust can't read it any more.
set -euo pipefail
RUST=0.4.0 PAIMON=1.4.2 HADOOP=3.4.1 SLF4J=1.7.36
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "pypaimon-rust==$RUST" pyarrow
for artifact in org.apache.paimon:paimon-bundle:$PAIMON org.apache.hadoop:hadoop-client-{api,runtime}:$HADOOP \
  org.slf4j:slf4j-api:$SLF4J; do
  mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:2.8:get -Dtransitive=false -Dartifact="$artifact" \
    -Ddest="$work/"
done
cat >"$work/Compact.java" <<'JAVA'
import java.util.*;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.table.*;
import org.apache.paimon.table.source.*;

public class Compact {
    public static void main(String[] args) throws Exception {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(args[0]));
        List<DataFileMeta> files = new ArrayList<>();
        DataSplit last = null;
        for (Split split : table.newReadBuilder().newScan().plan().splits()) {
            last = (DataSplit) split;
            files.addAll(last.dataFiles());
        }
        BaseAppendFileStoreWrite write = ((AppendOnlyFileStoreTable) table).store().newWrite("java");
        write.withIOManager(org.apache.paimon.disk.IOManager.create(args[1]));
        table.newBatchWriteBuilder().newCommit().commit(
                List.of(new AppendCompactTask(last.partition(), files).doCompact(table, write)));
        long rows = 0;
        for (Split split : table.newReadBuilder().newScan().plan().splits()) {
            for (DataFileMeta file : ((DataSplit) split).dataFiles()) {
                System.out.println("the first row id of Java's file: " + file.firstRowId());
                rows += file.rowCount();
            }
        }
        System.out.println("rows by Java, after its compaction: " + rows);
    }
}
JAVA
cat >"$work/ask.py" <<'PY'
import subprocess
import sys
from importlib.metadata import version

from pypaimon_rust import datafusion

warehouse, *compact = sys.argv[1:]
context = datafusion.SQLContext()
context.register_catalog("p", {"warehouse": warehouse})
context.sql("CREATE SCHEMA p.d")
context.sql("CREATE TABLE p.d.t (id INT) WITH ('row-tracking.enabled' = 'true')")
for number in range(2):
    context.sql(f"INSERT INTO p.d.t VALUES ({number})")


def rows():
    builder = datafusion.PaimonCatalog({"warehouse": warehouse}).get_table("d.t").new_read_builder()
    try:
        return sum(batch.num_rows for batch in builder.new_read().read(builder.new_scan().plan().splits()))
    except ValueError as error:
        return str(error)


print("pypaimon-rust", version("pypaimon-rust"))
before = rows()
print("rows by pypaimon-rust, before:", before, flush=True)
subprocess.run(compact, check=True)
after = rows()
print("pypaimon-rust, after it:", after)
sys.exit(not (before == 2 and "is missing first_row_id" in str(after)))
PY
echo "Paimon $PAIMON, $(java -version 2>&1 | head -1)"
javac -nowarn -Xlint:none -d "$work" -cp "$work/*" "$work/Compact.java" 2>&1 | grep -v '^Note' || true
"$work/venv/bin/python" "$work/ask.py" "$work/w" java --add-opens=java.base/java.nio=ALL-UNNAMED \
  --add-opens=java.base/java.lang=ALL-UNNAMED -cp "$work:$work/*" Compact "$work/w/d.db/t" "$work" 2>&1 |
  grep -v -i -e slf4j -e log4j -e warn
