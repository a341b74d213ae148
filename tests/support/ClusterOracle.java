import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.paimon.append.cluster.IncrementalClusterManager;
import org.apache.paimon.compact.CompactUnit;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.partition.PartitionPredicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.TableCommitImpl;

/**
 * Java's incremental clustering of tables without buckets, as its procedure for Spark does it: {@code pick|run
 * minor|full TABLE_PATH [PARTITION_VALUE]}. A line per partition that was picked: output level and names of files.
 */
public final class ClusterOracle {
    public static void main(String[] args) throws Exception {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(args[2]));
        table = table.copy(Collections.singletonMap("write-only", "false"));
        PartitionPredicate wanted = null;
        if (args.length > 3) {
            PredicateBuilder builder = new PredicateBuilder(table.schema().logicalPartitionType());
            wanted = PartitionPredicate.fromPredicate(
                    table.schema().logicalPartitionType(), builder.equal(0, Integer.valueOf(args[3])));
        }
        Map<BinaryRow, CompactUnit> units =
                new IncrementalClusterManager(table, wanted).createCompactUnits(args[1].equals("full"));
        for (CompactUnit unit : units.values()) {
            TreeMap<String, Integer> names = new TreeMap<>();
            unit.files().forEach(f -> names.put(f.fileName(), f.level()));
            System.out.println(unit.outputLevel() + " " + String.join(",", names.keySet()));
        }
        if (args[0].equals("run") && !units.isEmpty()) {
            run(table, units);
        }
    }

    private static void run(FileStoreTable table, Map<BinaryRow, CompactUnit> units) throws Exception {
        String user = UUID.randomUUID().toString();
        IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"));
        BaseAppendFileStoreWrite write = (BaseAppendFileStoreWrite) table.store().newWrite(user);
        write.withIOManager(io);
        List<CommitMessage> messages = new ArrayList<>();
        for (Map.Entry<BinaryRow, CompactUnit> unit : new LinkedHashMap<>(units).entrySet()) {
            List<DataFileMeta> before = unit.getValue().files();
            List<DataFileMeta> after = IncrementalClusterManager.upgrade(
                    write.clusterRewrite(unit.getKey(), 0, before), unit.getValue().outputLevel());
            messages.add(new CommitMessageImpl(
                    unit.getKey(), 0, table.coreOptions().bucket(), DataIncrement.emptyIncrement(),
                    new CompactIncrement(before, after, Collections.emptyList())));
        }
        try (TableCommitImpl commit = table.newCommit(user)) {
            commit.commit(messages);
        }
        write.close();
    }
}
