import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.hive.HiveCatalog;
import org.apache.paimon.options.Options;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.view.ViewImpl;

/**
 * What Java does in a Hive catalog: {@code OPTIONS_FILE COMMAND NAME ...}, as CatalogOracle. {@code rich} makes a table
 * of many types, with options {@code key=value}; {@code write} appends rows (id INT, p STRING), one for each {@code
 * ID,P}; {@code hold} keeps a table's lock for milliseconds.
 */
public final class HiveOracle {
    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            int at = line.indexOf('=');
            options.put(line.substring(0, at), line.substring(at + 1));
        }
        String[] more = Arrays.copyOfRange(args, 3, args.length);
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(Options.fromMap(options)))) {
            if (args[1].equals("database")) {
                catalog.createDatabase(args[2], false);
            } else if (args[1].equals("drop-database")) {
                catalog.dropDatabase(args[2], false, true);
            } else if (args[1].equals("tables")) {
                catalog.listTables(args[2]).forEach(System.out::println);
            } else {
                run((HiveCatalog) catalog, args[1], Identifier.fromString(args[2]), more);
            }
        }
    }

    private static void run(HiveCatalog catalog, String command, Identifier name, String[] more) throws Exception {
        switch (command) {
            case "rich":
                catalog.createTable(name, rich(more), false);
                break;
            case "partitioned":
                Schema.Builder schema = Schema.newBuilder().column("id", DataTypes.INT()).column("p", DataTypes.STRING());
                catalog.createTable(name, with(schema, more).partitionKeys("p").build(), false);
                break;
            case "add":
                catalog.alterTable(
                        name,
                        Arrays.asList(
                                SchemaChange.addColumn(more[0], DataTypes.STRING(), "added"),
                                SchemaChange.setOption("snapshot.num-retained.max", "77"),
                                SchemaChange.removeOption("write-only")),
                        false);
                break;
            case "rename":
                catalog.renameTable(name, Identifier.fromString(more[0]), false);
                break;
            case "repair":
                catalog.repairTable(name);
                break;
            case "drop":
                catalog.dropTable(name, false);
                break;
            case "view":
                Map<String, String> none = Collections.emptyMap();
                DataField field = new DataField(0, "id", DataTypes.INT());
                catalog.createView(
                        name,
                        new ViewImpl(name, Collections.singletonList(field), "SELECT 1 AS id", none, null, none),
                        false);
                break;
            case "columns":
                Table table = catalog.getTable(name);
                System.out.println(table.rowType().asSQLString());
                System.out.println(table.comment().orElse(""));
                break;
            case "drop-partition":
                catalog.dropPartitions(name, Collections.singletonList(Collections.singletonMap("p", more[0])));
                break;
            case "hold":
                catalog.runWithLock(
                        name,
                        () -> {
                            Files.createFile(Paths.get(more[1]));
                            Thread.sleep(Long.parseLong(more[0]));
                            Files.createFile(Paths.get(more[2]));
                            return null;
                        });
                break;
            default:
                write(catalog.getTable(name), more);
        }
    }

    private static Schema.Builder with(Schema.Builder schema, String[] options) {
        for (String option : options) {
            int at = option.indexOf('=');
            schema.option(option.substring(0, at), option.substring(at + 1));
        }
        return schema;
    }

    private static Schema rich(String[] options) {
        Schema.Builder schema =
                Schema.newBuilder()
                        .column("id", DataTypes.BIGINT(), "the key")
                        .column("day", DataTypes.DATE())
                        .column("flag", DataTypes.BOOLEAN())
                        .column("tiny", DataTypes.TINYINT())
                        .column("small", DataTypes.SMALLINT())
                        .column("number", DataTypes.INT())
                        .column("single", DataTypes.FLOAT())
                        .column("wide", DataTypes.DOUBLE())
                        .column("price", DataTypes.DECIMAL(20, 3))
                        .column("code", DataTypes.CHAR(5))
                        .column("long_code", DataTypes.CHAR(300))
                        .column("name", DataTypes.VARCHAR(30))
                        .column("long_name", DataTypes.VARCHAR(70000))
                        .column("text", DataTypes.STRING(), "any")
                        .column("bytes", DataTypes.BYTES())
                        .column("few", DataTypes.BINARY(4))
                        .column("clock", DataTypes.TIME(3))
                        .column("at", DataTypes.TIMESTAMP(6))
                        .column("list", DataTypes.ARRAY(DataTypes.ROW(
                                DataTypes.FIELD(100, "a", DataTypes.INT()),
                                DataTypes.FIELD(101, "b", DataTypes.MAP(DataTypes.STRING(), DataTypes.DECIMAL(5, 1))))))
                        .column("many", DataTypes.MULTISET(DataTypes.STRING()))
                        .column("variant", DataTypes.VARIANT())
                        .primaryKey("id", "day")
                        .partitionKeys("day")
                        .comment("rich");
        return with(schema, options).build();
    }

    private static void write(Table table, String[] rows) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            for (String row : rows) {
                String[] texts = row.split(",");
                write.write(GenericRow.of(Integer.valueOf(texts[0]), BinaryString.fromString(texts[1])));
            }
            commit.commit(write.prepareCommit());
        }
    }
}
