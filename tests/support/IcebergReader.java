// Reads tables by Iceberg's own Java library: a line of input is a table's directory or metadata file, and a snapshot's number or "newest";
// the answer is a line with the number of rows, then each row's columns as text, sorted.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.hadoop.HadoopTables;
import org.apache.iceberg.io.CloseableIterable;

public class IcebergReader {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t");
            StringBuilder out = new StringBuilder();
            try {
                Configuration conf = new Configuration();
                Table table = parts[0].endsWith(".metadata.json")
                        ? new BaseTable(new StaticTableOperations(parts[0], new HadoopFileIO(conf)), parts[0])
                        : new HadoopTables(conf).load(parts[0]);
                IcebergGenerics.ScanBuilder scan = IcebergGenerics.read(table);
                if (!parts[1].equals("newest")) {
                    scan = scan.useSnapshot(Long.parseLong(parts[1]));
                }
                List<String> rows = new ArrayList<>();
                try (CloseableIterable<Record> records = scan.build()) {
                    for (Record record : records) {
                        rows.add(text(record, table.schema().columns().size())); // positions may follow, for deletes
                    }
                }
                Collections.sort(rows);
                out.append(rows.size()).append('\n');
                for (String row : rows) {
                    out.append(row).append('\n');
                }
            } catch (Throwable error) {
                out.append("error ").append(error.toString().replace('\n', ' ')).append('\n');
            }
            System.out.print(out);
            System.out.flush();
        }
    }

    private static String text(Record record, int columns) {
        List<String> parts = new ArrayList<>();
        for (int i = 0; i < columns; i++) {
            parts.add(text(record.get(i)));
        }
        return "(" + String.join("|", parts) + ")";
    }

    private static String text(Object value) {
        if (value instanceof Record) {
            return text((Record) value, ((Record) value).size());
        }
        if (value instanceof List) {
            List<String> parts = new ArrayList<>();
            for (Object each : (List<?>) value) {
                parts.add(text(each));
            }
            return "[" + String.join("|", parts) + "]";
        }
        if (value instanceof Map) {
            List<String> parts = new ArrayList<>();
            for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet()) {
                parts.add(text(each.getKey()) + "=" + text(each.getValue()));
            }
            Collections.sort(parts);
            return "{" + String.join("|", parts) + "}";
        }
        if (value instanceof ByteBuffer) {
            StringBuilder hex = new StringBuilder();
            ByteBuffer bytes = ((ByteBuffer) value).duplicate();
            while (bytes.hasRemaining()) {
                hex.append(String.format("%02x", bytes.get()));
            }
            return hex.toString();
        }
        return String.valueOf(value);
    }
}
