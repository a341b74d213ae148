import java.util.HexFormat;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;

/** {@code TABLE}: prints the rows of a table whose columns are an INT and a BLOB, the bytes in hexadecimal digits. */
public final class BlobOracle {
    public static void main(String[] args) throws Exception {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(args[0]));
        try (RecordReaderIterator<InternalRow> rows = new RecordReaderIterator<>(
                table.newRead().createReader(table.newReadBuilder().newScan().plan()))) {
            while (rows.hasNext()) {
                InternalRow row = rows.next();
                String bytes = row.isNullAt(1) ? "NULL" : HexFormat.of().formatHex(row.getBlob(1).toData());
                System.out.println(row.getInt(0) + " " + bytes);
            }
        }
    }
}
