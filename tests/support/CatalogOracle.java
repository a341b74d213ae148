import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.options.Options;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataTypes;

/**
 * Tables (id INT, v STRING) of any catalog and store: {@code OPTIONS_FILE create|write|read TABLE ...}. The file has
 * {@code key=value} lines, those with {@code system.} for this JVM. {@code create TABLE KEYED};
 * {@code write TABLE FIRST ROWS COMMITS} appends as many rows in each commit, counting on from FIRST;
 * {@code read TABLE} prints id and v, with a tab between.
 */
public final class CatalogOracle {
    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        Map<String, String> system = new HashMap<>();
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            int at = line.indexOf('=');
            options.put(line.substring(0, at), line.substring(at + 1));
            if (line.startsWith("system.")) {
                system.put(line.substring(7, at), line.substring(at + 1));
            }
        }
        for (String driver : new String[] {"org.sqlite.JDBC", "org.postgresql.Driver", "org.mariadb.jdbc.Driver"}) {
            try {
                Class.forName(driver);
            } catch (ClassNotFoundException e) {
                // not asked for
            }
        }
        system.forEach(System::setProperty);
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(Options.fromMap(options)))) {
            Identifier name = Identifier.fromString(args[2]);
            if (args[1].equals("create")) {
                create(catalog, name, args[3].equals("true"));
            } else if (args[1].equals("write")) {
                write(catalog.getTable(name), args);
            } else {
                read(catalog.getTable(name));
            }
        } finally { // other tests run in this JVM
            system.keySet().forEach(System::clearProperty);
        }
    }

    private static void create(Catalog catalog, Identifier name, boolean keyed) throws Exception {
        catalog.createDatabase(name.getDatabaseName(), true);
        Schema.Builder schema = Schema.newBuilder().column("id", DataTypes.INT()).column("v", DataTypes.STRING());
        schema.option("file-index.bloom-filter.columns", "id").option("commit.max-retries", "1000");
        schema.option("bucket", keyed ? "1" : "-1");
        catalog.createTable(name, (keyed ? schema.primaryKey("id") : schema).build(), false);
    }

    private static void write(Table table, String[] args) throws Exception {
        int next = Integer.parseInt(args[3]);
        for (int i = 0; i < Integer.parseInt(args[5]); i++) {
            BatchWriteBuilder builder = table.newBatchWriteBuilder();
            try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
                write.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
                for (int row = 0; row < Integer.parseInt(args[4]); row++, next++) {
                    write.write(GenericRow.of(next, BinaryString.fromString("java " + next)));
                }
                commit.commit(write.prepareCommit());
            }
        }
    }

    private static void read(Table table) throws Exception {
        ReadBuilder builder = table.newReadBuilder();
        try (RecordReaderIterator<InternalRow> rows =
                new RecordReaderIterator<>(builder.newRead().createReader(builder.newScan().plan()))) {
            while (rows.hasNext()) {
                InternalRow row = rows.next();
                System.out.println(row.getInt(0) + "\t" + row.getString(1));
            }
        }
    }
}
