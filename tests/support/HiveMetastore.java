import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.security.HadoopThriftAuthBridge;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.hadoop.hive.metastore.txn.TxnStore;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;
import org.apache.hadoop.security.UserGroupInformation;

/** A Hive metastore with a database in memory: {@code PORT WAREHOUSE NAME=VALUE ...}, of more settings. */
public final class HiveMetastore {
    public static void main(String[] args) throws Throwable {
        Configuration conf = MetastoreConf.newMetastoreConf();
        conf.set("javax.jdo.option.ConnectionURL", "jdbc:derby:memory:metastore;create=true");
        conf.set("datanucleus.schema.autoCreateAll", "true");
        conf.set("datanucleus.connectionPoolingType", "hikaricp");
        conf.set("hive.metastore.schema.verification", "false");
        conf.set("hive.metastore.warehouse.dir", args[1]);
        conf.set("hive.stats.autogather", "false");
        // What these name by default is in Hive itself, not in its metastore.
        conf.set("hive.metastore.expression.proxy", "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy");
        conf.set("metastore.task.threads.always", "org.apache.hadoop.hive.metastore.events.EventCleanerTask");
        for (int i = 2; i < args.length; i++) {
            int at = args[i].indexOf('=');
            conf.set(args[i].substring(0, at), args[i].substring(at + 1));
        }
        UserGroupInformation.setConfiguration(conf);
        TxnDbUtil.setConfValues(conf);
        TxnDbUtil.prepDb(conf); // the tables of locks
        TxnStore locks = TxnUtils.getTxnStore(conf);
        Thread keeper = new Thread(() -> { // Hive has one, which removes locks without signs of life
            while (true) {
                try {
                    Thread.sleep(1000);
                } catch (InterruptedException e) {
                    return;
                }
                locks.performTimeOuts();
            }
        });
        keeper.setDaemon(true);
        keeper.start();
        HiveMetaStore.startMetaStore(Integer.parseInt(args[0]), HadoopThriftAuthBridge.getBridge(), conf);
    }
}
