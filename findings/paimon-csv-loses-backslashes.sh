#!/usr/bin/env bash
# One would guess: a CSV format table of Java Paimon reads the texts that Java Paimon has written into it.
# What happens: its writer leaves a backslash as it is, and its reader takes it for the escape character and drops it, in
#   quotes or without: C:\new is C:new. Quoting helps nobody, as only values with other special characters get quotes.
# Why it matters: paths and patterns in shared directories change without an error. A scan here refuses files with such
#   backslashes, and reads them with another csv.escape-character.
set -euo pipefail
PAIMON=1.4.2 HADOOP=3.4.1 SLF4J=1.7.36
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
for artifact in org.apache.paimon:paimon-bundle:$PAIMON org.apache.hadoop:hadoop-client-{api,runtime}:$HADOOP \
  org.slf4j:slf4j-api:$SLF4J; do
  mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:2.8:get -Dtransitive=false -Dartifact="$artifact" \
    -Ddest="$work/"
done
cat >"$work/Backslashes.java" <<'JAVA'
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;
import org.apache.paimon.catalog.*;
import org.apache.paimon.data.*;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.FormatTable;
import org.apache.paimon.table.sink.*;
import org.apache.paimon.table.source.*;
import org.apache.paimon.types.*;

public class Backslashes {
    public static void main(String[] args) throws Exception {
        FormatTable table = FormatTable.builder()
                .fileIO(LocalFileIO.create()).identifier(Identifier.create("db", "t"))
                .rowType(RowType.of(DataTypes.STRING())).partitionKeys(List.of()).location(args[0])
                .format(FormatTable.Format.CSV).options(Map.of("path", args[0], "file.format", "csv"))
                .catalogContext(CatalogContext.create(new Options())).build();
        List<String> written = List.of("C:\\new", "a,\\b");
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            for (String text : written) {
                write.write(GenericRow.of(BinaryString.fromString(text)));
            }
            commit.commit(write.prepareCommit());
        }
        try (Stream<Path> files = Files.list(Paths.get(args[0]))) {
            for (Path file : files.filter(f -> f.toString().endsWith(".csv")).collect(Collectors.toList())) {
                System.out.println("the file: " + Files.readAllLines(file));
            }
        }
        List<String> found = new ArrayList<>();
        ReadBuilder reads = table.newReadBuilder();
        reads.newRead().createReader(reads.newScan().plan()).forEachRemaining(r -> found.add(r.getString(0).toString()));
        System.out.println("written: " + written + "\nread: " + found);
        System.exit(found.equals(List.of("C:new", "a,b")) ? 0 : 1);
    }
}
JAVA
echo "paimon $PAIMON"
javac -nowarn -cp "$work/*" -d "$work" "$work/Backslashes.java"
java -cp "$work:$work/*" Backslashes "$work/table" 2>/dev/null
