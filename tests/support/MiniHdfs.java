import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DFSTestUtil;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.datanode.DataNodeTestUtils;
import org.apache.hadoop.hdfs.server.namenode.NameNodeAdapter;

/**
 * HDFS in one process: two name nodes and two data nodes.
 *
 * <p>Arguments: a directory, then settings as NAME=VALUE. It prints the ports of the name nodes; the first is active.
 * Then it reads commands, a line each, and answers each with a line, which begins with "ok" or "failed". It ends with
 * its input.
 *
 * <pre>
 *   active N            name node N becomes active, the other one standby
 *   standby             both are standby: nobody answers
 *   stop N | start N    a name node
 *   safemode on | off   of the active name node
 *   quota PATH N BYTES  of a directory: names, bytes with all replicas; -1: none
 *   data on | off       the data nodes
 *   reports on | off    what data nodes tell of new blocks; what they didn't comes when it is on again
 *   damage PATH         flip bits in the first block of a file, in each of its replicas
 * </pre>
 */
public class MiniHdfs {
    private final MiniDFSCluster cluster;
    private int active;
    private final List<MiniDFSCluster.DataNodeProperties> stopped = new ArrayList<>();

    private MiniHdfs(MiniDFSCluster cluster) throws Exception {
        this.cluster = cluster;
        cluster.transitionToActive(0);
        cluster.waitActive();
    }

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new HdfsConfiguration();
        for (String setting : Arrays.asList(arguments).subList(1, arguments.length)) {
            settings.set(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        }
        MiniDFSCluster cluster =
                new MiniDFSCluster.Builder(settings, new File(arguments[0]))
                        .nnTopology(MiniDFSNNTopology.simpleHATopology())
                        .numDataNodes(2)
                        .build();
        MiniHdfs hdfs = new MiniHdfs(cluster);
        System.out.println(cluster.getNameNodePort(0) + " " + cluster.getNameNodePort(1));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                System.out.println("ok " + hdfs.answer(line.split(" ")));
            } catch (Exception error) {
                System.out.println("failed " + String.valueOf(error).replace('\n', ' '));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private Object answer(String[] words) throws Exception {
        switch (words[0]) {
            case "active":
                int next = Integer.parseInt(words[1]);
                if (cluster.getNameNode(1 - next) != null) {
                    cluster.transitionToStandby(1 - next);
                }
                cluster.transitionToActive(next);
                active = next;
                return "";
            case "standby":
                cluster.transitionToStandby(active);
                return "";
            case "stop":
                cluster.shutdownNameNode(Integer.parseInt(words[1]));
                return "";
            case "start":
                cluster.restartNameNode(Integer.parseInt(words[1]), false);
                return "";
            case "safemode":
                if (words[1].equals("on")) {
                    NameNodeAdapter.enterSafeMode(cluster.getNameNode(active), false);
                } else {
                    NameNodeAdapter.leaveSafeMode(cluster.getNameNode(active));
                }
                return "";
            case "quota":
                files().setQuota(new Path(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]));
                return "";
            case "data":
                if (words[1].equals("on")) {
                    for (MiniDFSCluster.DataNodeProperties node : stopped) {
                        cluster.restartDataNode(node, true);
                    }
                    stopped.clear();
                    cluster.waitActive(active);
                } else {
                    stopped.add(cluster.stopDataNode(0));
                    stopped.add(cluster.stopDataNode(0));
                }
                return "";
            case "reports":
                for (DataNode node : cluster.getDataNodes()) {
                    if (words[1].equals("on")) {
                        DataNodeTestUtils.resumeIBR(node);
                    } else {
                        DataNodeTestUtils.pauseIBR(node);
                        DataNodeTestUtils.triggerBlockReport(node);
                    }
                }
                return "";
            case "damage":
                return cluster.corruptBlockOnDataNodes(DFSTestUtil.getFirstBlock(files(), new Path(words[1])));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private DistributedFileSystem files() throws Exception {
        return cluster.getFileSystem(active);
    }
}
