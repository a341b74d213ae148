import java.util.Map;
import org.apache.paimon.consumer.ConsumerManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.table.ExpireChangelogImpl;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.tag.TagBatchCreation;

/**
 * Maintenance by Java: all {@code changelogs} that outlive their snapshots expire, a {@code rollback} to a tag or a
 * snapshot, the {@code tags} that a commit makes, the {@code batch-tag} of a batch write, {@code partitions} that expire, or {@code orphans} that are removed and
 * printed, a tag is deleted, what {@code consumers} read next, a consumer reads some snapshots from the first on, or the snapshots that {@code watermarks} stand for: {@code
 * changelogs|tags|batch-tag|partitions|orphans|consumers TABLE_PATH}, {@code rollback TABLE_PATH TAG_OR_NUMBER}, {@code delete-tag
 * TABLE_PATH TAG}, {@code consume TABLE_PATH NAME COUNT}, {@code watermarks TABLE_PATH NUMBERS}.
 */
public final class MaintenanceOracle {
    public static void main(String[] args) throws Exception {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(args[1]));
        switch (args[0]) {
            case "changelogs":
                ((ExpireChangelogImpl) table.newExpireChangelog()).expireAll();
                break;
            case "rollback":
                if (args[2].chars().allMatch(Character::isDigit)) {
                    table.rollbackTo(Long.parseLong(args[2]));
                } else {
                    table.rollbackTo(args[2]);
                }
                break;
            case "delete-tag":
                table.deleteTag(args[2]);
                break;
            case "consumers":
                new ConsumerManager(LocalFileIO.create(), new Path(args[1]))
                        .consumers().forEach((name, next) -> System.out.println(name + "=" + next));
                break;
            case "consume":
                StreamTableScan scan = table.copy(
                        Map.of("consumer-id", args[2], "scan.mode", "from-snapshot", "scan.snapshot-id", "1"))
                        .newStreamScan();
                for (int i = 0; i < Integer.parseInt(args[3]); i++) {
                    scan.plan();
                }
                scan.notifyCheckpointComplete(scan.checkpoint());
                break;
            case "batch-tag":
                new TagBatchCreation(table).createTag();
                break;
            case "watermarks":
                for (int i = 2; i < args.length; i++) {
                    System.out.println(
                            table.snapshotManager().earlierOrEqualWatermark(Long.parseLong(args[i])).id());
                }
                break;
            case "tags":
                table.store().newTagAutoManager(table).run();
                break;
            case "partitions":
                FileStoreTable now = table.copy(Map.of("partition.expiration-check-interval", "0 s"));
                now.store().newPartitionExpire("java", now).expire(Long.MAX_VALUE);
                break;
            default:
                new LocalOrphanFilesClean(table, System.currentTimeMillis() + 1000)
                        .clean().getDeletedFilesPath().forEach(System.out::println);
        }
    }
}
