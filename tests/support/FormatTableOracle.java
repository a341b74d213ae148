import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.Map;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.options.Options;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.FormatTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;

/**
 * Copies rows between tables: {@code FROM TO}, several times. A table is its path or, of a format table, the path of a
 * schema file, a comma and the directory.
 */
public final class FormatTableOracle {
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < args.length; i += 2) {
            copy(open(args[i]), open(args[i + 1]));
        }
    }

    private static Table open(String name) throws Exception {
        int comma = name.indexOf(',');
        if (comma < 0) {
            return FileStoreTableFactory.create(LocalFileIO.create(), new Path(name));
        }
        TableSchema schema = TableSchema.fromJson(Files.readString(Paths.get(name.substring(0, comma))));
        String directory = name.substring(comma + 1);
        Map<String, String> options = new HashMap<>(schema.options());
        options.put("path", directory);
        return FormatTable.builder()
                .fileIO(LocalFileIO.create())
                .identifier(Identifier.create("db", "t"))
                .rowType(schema.logicalRowType())
                .partitionKeys(schema.partitionKeys())
                .location(directory)
                .format(FormatTable.parseFormat(schema.options().get("file.format")))
                .options(options)
                .catalogContext(CatalogContext.create(new Options()))
                .build();
    }

    private static void copy(Table from, Table to) throws Exception {
        ReadBuilder reads = from.newReadBuilder();
        BatchWriteBuilder writes = to.newBatchWriteBuilder();
        try (RecordReaderIterator<InternalRow> rows =
                        new RecordReaderIterator<>(reads.newRead().createReader(reads.newScan().plan()));
                BatchTableWrite write = writes.newWrite();
                BatchTableCommit commit = writes.newCommit()) {
            write.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
            while (rows.hasNext()) {
                write.write(rows.next());
            }
            commit.commit(write.prepareCommit());
        }
    }
}
