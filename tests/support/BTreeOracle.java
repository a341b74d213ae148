import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.PositionOutputStream;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.globalindex.GlobalIndexIOMeta;
import org.apache.paimon.globalindex.ResultEntry;
import org.apache.paimon.globalindex.btree.BTreeIndexReader;
import org.apache.paimon.globalindex.btree.BTreeIndexWriter;
import org.apache.paimon.globalindex.btree.KeySerializer;
import org.apache.paimon.globalindex.io.GlobalIndexFileWriter;
import org.apache.paimon.io.cache.CacheManager;
import org.apache.paimon.options.MemorySize;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypes;

/**
 * Global indexes of the type btree by Java Paimon.
 *
 * <p>{@code write TYPE ROWS INDEX}: ROWS has a line for each row, in the order of the keys: its key, empty for NULL, a tab,
 * its id. Prints the bounds. {@code read TYPE INDEX BOUNDS}: prints each key with its ids, and the ids of NULLs.
 */
public final class BTreeOracle {
    public static void main(String[] args) throws Exception {
        KeySerializer keys = KeySerializer.create(typeOf(args[1]));
        LocalFileIO io = LocalFileIO.create();
        if (args[0].equals("write")) {
            write(args[1], keys, io, Files.readAllLines(java.nio.file.Path.of(args[2])), new Path(args[3]));
        } else {
            read(args[1], keys, io, new Path(args[2]), HexFormat.of().parseHex(args[3]));
        }
    }

    private static void write(String type, KeySerializer keys, LocalFileIO io, List<String> rows, Path file)
            throws Exception {
        GlobalIndexFileWriter files = new GlobalIndexFileWriter() {
            @Override
            public String newFileName(String prefix) {
                return file.getName();
            }

            @Override
            public PositionOutputStream newOutputStream(String name) throws java.io.IOException {
                return io.newOutputStream(file, true);
            }
        };
        BTreeIndexWriter writer = new BTreeIndexWriter(files, keys, 4096, null);
        for (String row : rows) {
            String[] parts = row.split("\t", -1);
            writer.write(parts[0].isEmpty() ? null : keyOf(type, parts[0]), Long.parseLong(parts[1]));
        }
        for (ResultEntry entry : writer.finish()) {
            System.out.println(HexFormat.of().formatHex(entry.meta()));
        }
    }

    private static void read(String type, KeySerializer keys, LocalFileIO io, Path file, byte[] bounds) throws Exception {
        GlobalIndexIOMeta meta = new GlobalIndexIOMeta(file, io.getFileSize(file), bounds);
        CacheManager cache = new CacheManager(MemorySize.ofMebiBytes(8));
        try (BTreeIndexReader reader =
                new BTreeIndexReader(keys, found -> io.newInputStream(found.filePath()), meta, cache)) {
            for (BTreeIndexReader.EntryIterator entries = reader.entryIterator(); entries.hasNext(); ) {
                BTreeIndexReader.KeyRowIds next = entries.next();
                System.out.println(textOf(type, next.key()) + "\t" + Arrays.toString(next.rowIds()));
            }
            reader.scanNullRowIds(id -> System.out.println("\t[" + id + "]"));
        }
    }

    private static DataType typeOf(String type) {
        return switch (type) {
            case "BIGINT" -> DataTypes.BIGINT();
            case "DOUBLE" -> DataTypes.DOUBLE();
            case "STRING" -> DataTypes.STRING();
            case "TIMESTAMP(6)" -> DataTypes.TIMESTAMP(6);
            default -> DataTypes.DECIMAL(9, 2);
        };
    }

    private static Object keyOf(String type, String text) {
        return switch (type) {
            case "BIGINT" -> Long.valueOf(text);
            case "DOUBLE" -> Double.valueOf(text);
            case "STRING" -> BinaryString.fromBytes(text.getBytes(StandardCharsets.UTF_8));
            case "TIMESTAMP(6)" -> Timestamp.fromMicros(Long.parseLong(text));
            default -> Decimal.fromBigDecimal(new BigDecimal(text), 9, 2);
        };
    }

    private static String textOf(String type, Object key) {
        return type.equals("TIMESTAMP(6)") ? String.valueOf(((Timestamp) key).toMicros()) : key.toString();
    }
}
