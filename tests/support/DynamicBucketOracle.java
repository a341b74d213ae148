import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.BucketAssigner;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;

/**
 * Java's INSERT INTO a table with dynamic buckets, as its jobs for Flink and Spark do it: {@code TABLE SOURCE TASKS}
 * writes the rows of the table SOURCE. Each of the TASKS assigns buckets to the keys whose hash is its own; they are
 * looked up by the primary key without partition columns.
 */
public final class DynamicBucketOracle {
    public static void main(String[] args) throws Exception {
        FileStoreTable table = open(args[0]);
        FileStoreTable source = open(args[1]);
        int tasks = Integer.parseInt(args[2]);
        CoreOptions options = table.coreOptions();
        String user = UUID.randomUUID().toString();
        List<BucketAssigner> assigners = new ArrayList<>();
        for (int task = 0; task < tasks; task++) {
            assigners.add(new HashBucketAssigner(table.snapshotManager(), user, table.store().newIndexFileHandler(),
                    tasks, tasks, task, options.dynamicBucketTargetRowNum(), options.dynamicBucketMaxBuckets()));
        }
        RowPartitionKeyExtractor extractor = new RowPartitionKeyExtractor(table.schema());
        try (IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"));
                TableWriteImpl<?> write = table.newWrite(user);
                TableCommitImpl commit = table.newCommit(user);
                RecordReaderIterator<InternalRow> rows = new RecordReaderIterator<>(
                        source.newRead().createReader(source.newReadBuilder().newScan().plan()))) {
            write.withIOManager(io);
            while (rows.hasNext()) {
                InternalRow row = rows.next();
                BinaryRow partition = extractor.partition(row);
                int hash = extractor.trimmedPrimaryKey(row).hashCode();
                int task = BucketAssigner.computeAssigner(partition.hashCode(), hash, tasks, tasks);
                write.write(row, assigners.get(task).assign(partition, hash));
            }
            commit.commit(Long.MAX_VALUE, write.prepareCommit(true, Long.MAX_VALUE));
        }
    }

    private static FileStoreTable open(String path) {
        return FileStoreTableFactory.create(LocalFileIO.create(), new Path(path));
    }
}
