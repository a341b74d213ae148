import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.options.Options;
import org.apache.paimon.partition.Partition;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.rest.RESTCatalog;
import org.apache.paimon.rest.RESTCatalogServer;
import org.apache.paimon.rest.auth.AuthProvider;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.auth.DLFAuthProvider;
import org.apache.paimon.rest.auth.DLFDefaultSigner;
import org.apache.paimon.rest.auth.DLFOpenApiSigner;
import org.apache.paimon.rest.auth.DLFRequestSigner;
import org.apache.paimon.rest.auth.DLFToken;
import org.apache.paimon.rest.auth.RESTAuthParameter;
import org.apache.paimon.rest.responses.ConfigResponse;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypeRoot;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowType;
import org.apache.paimon.view.ViewImpl;

/**
 * Java's test server of the REST catalog, and Java's client of it: {@code DIRECTORY TOKEN}, or {@code DIRECTORY ID
 * SECRET SECURITY_TOKEN [openapi]} with signatures of DLF, or of its public endpoints. The first line of output is the server's address. A line of input is a command and its arguments with tabs between; the reply is one line.
 */
public final class RestCatalogOracle {
    public static void main(String[] args) throws Exception {
        PrintStream replies = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        ConfigResponse config =
                new ConfigResponse(Collections.singletonMap("prefix", "paimon"), Collections.<String, String>emptyMap());
        Options options = new Options();
        options.set("warehouse", "wh");
        AuthProvider authorised;
        if (args.length == 2) {
            authorised = new BearTokenAuthProvider(args[1]);
            options.set("token.provider", "bear");
            options.set("token", args[1]);
        } else {
            String algorithm = args.length == 5 ? args[4] : DLFDefaultSigner.IDENTIFIER;
            authorised = new Verifier(new DLFToken(args[1], args[2], args[3], null), algorithm);
            options.set("dlf.signing-algorithm", algorithm);
            options.set("token.provider", "dlf");
            options.set("dlf.region", Verifier.REGION);
            options.set("dlf.access-key-id", args[1]);
            options.set("dlf.access-key-secret", args[2]);
            options.set("dlf.security-token", args[3]);
        }
        RESTCatalogServer server = new RESTCatalogServer(args[0], authorised, config, "wh");
        server.start();
        replies.println(server.getUrl());
        options.set("uri", server.getUrl());
        RESTCatalog catalog = new RESTCatalog(CatalogContext.create(options));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                replies.println(answer(catalog, line.split("\t")).replace('\n', ' '));
            } catch (Exception e) {
                e.printStackTrace();
                replies.println("failed: " + String.valueOf(e).replace('\n', ' '));
            }
        }
        server.shutdown();
        System.exit(0);
    }

    /** Signs what came, by the headers it came with: the time of the client is a part of a signature. */
    private static final class Verifier extends DLFAuthProvider {
        static final String REGION = "cn-hangzhou";
        private final DLFRequestSigner signer;

        Verifier(DLFToken token, String algorithm) {
            super(null, token, "http://localhost", REGION, algorithm);
            boolean open = algorithm.equals(DLFOpenApiSigner.IDENTIFIER);
            signer = open ? new DLFOpenApiSigner() : new DLFDefaultSigner(REGION);
        }

        @Override
        public Map<String, String> mergeAuthHeader(Map<String, String> headers, RESTAuthParameter request) {
            try {
                Map<String, String> signed = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
                signed.putAll(headers);
                signed.put("Authorization", signer.authorization(request, token, "localhost", signed));
                return signed;
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }
    }

    private static String answer(RESTCatalog catalog, String[] words) throws Exception {
        if (words[0].equals("database")) {
            catalog.createDatabase(words[1], false);
            return "ok";
        }
        String[] names = words[1].split("\\.");
        Identifier name = Identifier.create(names[0], names[1]);
        switch (words[0]) {
            case "create": // with partitions by p
                Schema.Builder schema = Schema.newBuilder().column("id", DataTypes.INT()).column("p", DataTypes.STRING());
                catalog.createTable(name, schema.partitionKeys("p").build(), false);
                return "ok";
            case "external": // with a path
                Schema.Builder elsewhere = Schema.newBuilder().column("id", DataTypes.INT()).column("p", DataTypes.STRING());
                catalog.createTable(name, elsewhere.option("path", words[2]).build(), false);
                return "ok";
            case "view":
                List<DataField> fields = Collections.singletonList(new DataField(0, "id", DataTypes.INT()));
                Map<String, String> none = Collections.emptyMap();
                catalog.createView(name, new ViewImpl(name, fields, "SELECT 1 AS id", none, null, none), false);
                return "ok";
            case "drop":
                catalog.dropTable(name, false);
                return "ok";
            case "partitions":
                Map<String, String> found = new TreeMap<>();
                for (Partition p : catalog.listPartitions(name)) {
                    found.put(p.spec().toString(), p.recordCount() + " rows, " + p.fileCount() + " files");
                }
                return found.toString();
            case "add":
                catalog.alterTable(name, Collections.singletonList(SchemaChange.addColumn(words[2], DataTypes.INT())), false);
                return "ok";
            case "branches":
                return new TreeSet<>(catalog.listBranches(name)).toString();
            case "tags":
                return catalog.listTagsPaged(name, null, null, null).getElements().toString();
            case "tag":
                catalog.createTag(name, words[2], null, null, false);
                return "ok";
            case "branch":
                catalog.createBranch(name, words[2], words.length > 3 ? words[3] : null);
                return "ok";
            default:
                return answer((FileStoreTable) catalog.getTable(name), words);
        }
    }

    private static String answer(FileStoreTable table, String[] words) throws Exception {
        switch (words[0]) {
            case "schema":
                return table.schema().id() + " " + table.rowType().asSQLString() + " " + table.schema().comment();
            case "option":
                return String.valueOf(table.options().get(words[2]));
            case "snapshots":
                List<Long> ids = new ArrayList<>();
                table.snapshotManager().snapshots().forEachRemaining(s -> ids.add(s.id()));
                Collections.sort(ids);
                return ids.toString();
            case "expire":
                ExpireConfig keep = ExpireConfig.builder().snapshotRetainMin(1).snapshotRetainMax(1).build();
                return String.valueOf(table.newExpireSnapshots().config(keep).expire());
            case "rollback":
                table.rollbackTo(Long.parseLong(words[2]));
                return "ok";
            case "write": // rows with ; between, their values with , between
                BatchWriteBuilder builder = table.newBatchWriteBuilder();
                try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
                    for (String row : words[2].split(";")) {
                        write.write(row(table.rowType(), row.split(",")));
                    }
                    commit.commit(write.prepareCommit());
                }
                return "ok";
            default: // read
                if (words.length > 2) {
                    table = table.copy(Collections.singletonMap("scan.tag-name", words[2]));
                }
                return read(table);
        }
    }

    private static GenericRow row(RowType type, String[] texts) {
        Object[] values = new Object[type.getFieldCount()];
        for (int i = 0; i < texts.length; i++) {
            boolean number = type.getTypeAt(i).getTypeRoot() == DataTypeRoot.INTEGER;
            values[i] = number ? (Object) Integer.valueOf(texts[i]) : BinaryString.fromString(texts[i]);
        }
        return GenericRow.of(values);
    }

    private static String read(FileStoreTable table) throws Exception {
        List<String> lines = new ArrayList<>();
        ReadBuilder builder = table.newReadBuilder();
        List<DataField> fields = table.rowType().getFields();
        try (RecordReader<InternalRow> reader = builder.newRead().createReader(builder.newScan().plan())) {
            reader.forEachRemaining(
                    row -> {
                        StringBuilder line = new StringBuilder();
                        for (int i = 0; i < fields.size(); i++) {
                            Object value = InternalRow.createFieldGetter(fields.get(i).type(), i).getFieldOrNull(row);
                            line.append(i == 0 ? "" : ",").append(value);
                        }
                        lines.add(line.toString());
                    });
        }
        Collections.sort(lines);
        return String.join(";", lines);
    }
}
