import java.time.Duration;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;

/** Expires all snapshots but the last, or lists orphan files: {@code expire|orphans TABLE_PATH}; prints a count and seconds. */
public final class Maintenance {
    public static void main(String[] args) throws Exception {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(args[1]));
        long start = System.nanoTime();
        long count = args[0].equals("expire") ? expire(table) : orphans(table);
        System.out.println("[" + count + ", " + (System.nanoTime() - start) / 1e9 + "]");
    }

    private static long expire(FileStoreTable table) {
        ExpireConfig config = ExpireConfig.builder().snapshotRetainMin(1).snapshotRetainMax(1)
                .snapshotTimeRetain(Duration.ZERO).snapshotMaxDeletes(Integer.MAX_VALUE).build();
        return table.newExpireSnapshots().config(config).expire();
    }

    private static long orphans(FileStoreTable table) throws Exception {
        return new LocalOrphanFilesClean(table, System.currentTimeMillis() - 1000, true).clean().getDeletedFileCount();
    }
}
