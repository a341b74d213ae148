import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.postpone.BucketFiles;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.DataSplit;

/** Java's compaction of tables with bucket=-2, as its job for Flink does it: {@code BUCKETS TABLE_PATH...}. */
public final class PostponeOracle {
    public static void main(String[] args) throws Exception {
        for (int i = 1; i < args.length; i++) {
            run(FileStoreTableFactory.create(LocalFileIO.create(), new Path(args[i])), args[0]);
        }
    }

    private static void run(FileStoreTable table, String buckets) throws Exception {
        Map<BinaryRow, List<DataSplit>> waiting = new LinkedHashMap<>();
        for (DataSplit split : table.newSnapshotReader().withBucket(BucketMode.POSTPONE_BUCKET).read().dataSplits()) {
            waiting.computeIfAbsent(split.partition(), p -> new ArrayList<>()).add(split);
        }
        List<CommitMessage> messages = new ArrayList<>();
        String user = UUID.randomUUID().toString();
        FileStoreTable real = null;
        for (Map.Entry<BinaryRow, List<DataSplit>> entry : waiting.entrySet()) {
            real = withBuckets(table, numberOf(table, entry.getKey(), buckets));
            messages.addAll(takeIn(real, user, entry.getKey(), entry.getValue()));
        }
        if (real != null) {
            try (TableCommitImpl commit = real.newCommit(user)) {
                commit.commit(Long.MAX_VALUE, messages);
            }
        }
    }

    private static String numberOf(FileStoreTable table, BinaryRow partition, String buckets) {
        var files = table.newSnapshotReader().withPartitionFilter(Collections.singletonList(partition))
                .onlyReadRealBuckets().readFileIterator();
        return files.hasNext() ? String.valueOf(files.next().totalBuckets()) : buckets;
    }

    private static FileStoreTable withBuckets(FileStoreTable table, String buckets) {
        Map<String, String> options = new HashMap<>(table.options());
        options.put(CoreOptions.BUCKET.key(), buckets);
        return table.copy(table.schema().copy(options));
    }

    private static List<CommitMessage> takeIn(
            FileStoreTable real, String user, BinaryRow partition, List<DataSplit> splits) throws Exception {
        Map<Integer, BucketFiles> written = new LinkedHashMap<>();
        List<DataFileMeta> files = new ArrayList<>();
        splits.forEach(split -> files.addAll(split.dataFiles()));
        files.sort(Comparator.comparing(DataFileMeta::creationTime));
        IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"));
        try (TableWriteImpl<?> write = real.newWrite(user)) {
            write.withIOManager(io);
            for (DataFileMeta file : files) {
                DataSplit one = DataSplit.builder().withPartition(partition).withBucket(BucketMode.POSTPONE_BUCKET)
                        .withBucketPath(splits.get(0).bucketPath()).withTotalBuckets(splits.get(0).totalBuckets())
                        .withDataFiles(Collections.singletonList(file)).isStreaming(false).build();
                try (RecordReaderIterator<InternalRow> rows =
                        new RecordReaderIterator<>(real.newRead().createReader(one))) {
                    while (rows.hasNext()) {
                        write.write(rows.next());
                    }
                }
            }
            for (CommitMessage message : write.prepareCommit(true, Long.MAX_VALUE)) {
                CommitMessageImpl found = (CommitMessageImpl) message;
                written.computeIfAbsent(found.bucket(), bucket -> new BucketFiles(
                        real.store().pathFactory().createDataFilePathFactory(partition, bucket), real.fileIO()))
                        .update(found);
            }
        }
        List<CommitMessage> messages = new ArrayList<>();
        written.forEach((bucket, found) -> messages.add(found.makeMessage(partition, bucket)));
        messages.add(new CommitMessageImpl(partition, BucketMode.POSTPONE_BUCKET, splits.get(0).totalBuckets(),
                DataIncrement.emptyIncrement(),
                new CompactIncrement(files, Collections.emptyList(), Collections.emptyList())));
        return messages;
    }
}
