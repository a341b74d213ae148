#!/usr/bin/env bash
# One would guess: a stream of Java Paimon from an old snapshot gives later rows with their values, or fails, when a column
#   was widened from INT to BIGINT in between.
# What happens: it reads all later snapshots by the columns of the snapshot that it starts with, and casts values back to
#   INT without a check: 100000000100 comes as 1215752292. A stream without scan.snapshot-id gives the right value.
# Why it matters: wrong numbers reach whatever follows the table. A stream here has the newest columns at its start, and
#   ends with an error before a snapshot that changes the type of one of them.
set -euo pipefail
PAIMON=1.4.2 HADOOP=3.4.1 SLF4J=1.7.36
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
for artifact in org.apache.paimon:paimon-bundle:$PAIMON org.apache.hadoop:hadoop-client-{api,runtime}:$HADOOP \
  org.slf4j:slf4j-api:$SLF4J; do
  mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:2.8:get -Dtransitive=false -Dartifact="$artifact" \
    -Ddest="$work/"
done
cat >"$work/Widened.java" <<'JAVA'
import java.util.*;
import org.apache.paimon.data.*;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.schema.*;
import org.apache.paimon.table.*;
import org.apache.paimon.table.sink.*;
import org.apache.paimon.table.source.*;
import org.apache.paimon.types.*;

public class Widened {
    static Path path;

    static FileStoreTable table() throws Exception {
        return FileStoreTableFactory.create(LocalFileIO.create(), path);
    }

    static void write(Object value) throws Exception {
        BatchWriteBuilder builder = table().newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            write.write(GenericRow.of(value));
            commit.commit(write.prepareCommit());
        }
    }

    static List<Long> stream(Map<String, String> options) throws Exception {
        FileStoreTable table = table().copy(options);
        boolean isLong = table.rowType().getTypeAt(0).is(DataTypeRoot.BIGINT);
        StreamTableScan scan = table.newReadBuilder().newStreamScan();
        List<Long> found = new ArrayList<>();
        for (int round = 0; round < 4; round++) {
            for (Split split : scan.plan().splits()) {
                table.newReadBuilder().newRead().createReader(split)
                        .forEachRemaining(row -> found.add(isLong ? row.getLong(0) : (long) row.getInt(0)));
            }
        }
        Collections.sort(found);
        return found;
    }

    public static void main(String[] args) throws Exception {
        path = new Path(args[0]);
        SchemaManager schemas = new SchemaManager(LocalFileIO.create(), path);
        schemas.createTable(Schema.newBuilder().column("a", DataTypes.INT()).build());
        write(1);
        schemas.commitChanges(SchemaChange.updateColumnType("a", DataTypes.BIGINT()));
        write(100_000_000_100L);
        List<Long> state = stream(Map.of());
        List<Long> changes = stream(Map.of("scan.mode", "from-snapshot", "scan.snapshot-id", "1"));
        System.out.println("a stream that starts with the newest state: " + state);
        System.out.println("a stream from snapshot 1: " + changes);
        System.exit(state.contains(100_000_000_100L) && changes.equals(List.of(1L, 1_215_752_292L)) ? 0 : 1);
    }
}
JAVA
echo "paimon $PAIMON"
javac -nowarn -cp "$work/*" -d "$work" "$work/Widened.java"
java -cp "$work:$work/*" Widened "$work/table" 2>/dev/null
