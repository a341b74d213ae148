#!/usr/bin/env bash
# One would guess: hdfs-native reads a closed file of HDFS whole, or raises an error, as Hadoop's own client does.
# What happens: where name nodes may close a file before data nodes have reported its last block
#   (dfs.namenode.file.close.num-committed-allowed), hdfs-native reads such a file as if it had no such block: a small one
#   is empty, without an error, though get_file_info has its size. Hadoop's client asks a data node for the length.
# Why it matters: a file that was just written is read as an empty or shorter one. Reads here compare both sizes, and wait.
set -euo pipefail
HDFS_NATIVE=0.14.7 HADOOP=3.4.1 SLF4J=1.7.36
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "hdfs-native==$HDFS_NATIVE"
for artifact in org.apache.hadoop:hadoop-client-{minicluster,api,runtime}:$HADOOP \
  org.slf4j:{slf4j-api,slf4j-nop,jcl-over-slf4j}:$SLF4J; do
  mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:2.8:get -Dtransitive=false -Dartifact="$artifact" \
    -Ddest="$work/"
done
cat >"$work/read.py" <<'PY'
import sys

import hdfs_native

client = hdfs_native.Client(sys.argv[1])
print("hdfs-native's get_file_info:", client.get_file_info("/f").length, "bytes")
found = client.read("/f").read()
print("hdfs-native reads:", found)
sys.exit(0 if found == b"" else 1)
PY
cat >"$work/Unreported.java" <<'JAVA'
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.*;
import org.apache.hadoop.hdfs.*;
import org.apache.hadoop.hdfs.server.datanode.*;

public class Unreported {
    public static void main(String[] args) throws Exception {
        Configuration settings = new HdfsConfiguration();
        settings.setInt("dfs.namenode.file.close.num-committed-allowed", 1);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings, new File(args[0])).numDataNodes(2).build();
        cluster.waitActive();
        for (DataNode node : cluster.getDataNodes()) {
            DataNodeTestUtils.pauseIBR(node);
        }
        FileSystem files = cluster.getFileSystem();
        try (FSDataOutputStream file = files.create(new Path("/f"), (short) 2)) {
            file.write("all of it".getBytes(StandardCharsets.UTF_8));
        }
        byte[] found = new byte[100];
        try (FSDataInputStream file = files.open(new Path("/f"))) {
            found = Arrays.copyOf(found, file.read(found));
        }
        System.out.println("Hadoop's client reads: " + new String(found, StandardCharsets.UTF_8));
        String address = "hdfs://127.0.0.1:" + cluster.getNameNodePort();
        int outcome = new ProcessBuilder(args[1], args[2], address).inheritIO().start().waitFor();
        Runtime.getRuntime().halt(found.length == 9 ? outcome : 1);
    }
}
JAVA
echo "hdfs-native $HDFS_NATIVE Hadoop $HADOOP"
javac -nowarn -cp "$work/*" -d "$work" "$work/Unreported.java"
java -cp "$work:$work/*" Unreported "$work/hdfs" "$work/venv/bin/python" "$work/read.py" 2>/dev/null
