// An Iceberg REST catalog: Iceberg's own handlers and its Hadoop catalog behind the JDK's HTTP server.
// Arguments: the warehouse; "bearer" and a token, or "open". Prints its port.

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.hadoop.HadoopCatalog;
import org.apache.iceberg.rest.CatalogHandlers;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.RegisterTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.JsonAutoDetect;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.PropertyAccessor;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.PropertyNamingStrategies;

public class IcebergRestServer {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static HadoopCatalog catalog;
    private static String secret;

    public static void main(String[] args) throws Exception {
        MAPPER.setVisibility(PropertyAccessor.FIELD, JsonAutoDetect.Visibility.ANY);
        MAPPER.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
        MAPPER.setPropertyNamingStrategy(new PropertyNamingStrategies.KebabCaseStrategy());
        RESTSerializers.registerAll(MAPPER);
        catalog = new HadoopCatalog(new Configuration(), args[0]);
        secret = args[1].equals("bearer") ? "Bearer " + args[2] : null;
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", IcebergRestServer::handle);
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
        System.out.println(server.getAddress().getPort());
        System.out.flush();
        while (System.in.read() >= 0) {} // ends with the process that started it
        System.exit(0);
    }

    private static void handle(HttpExchange exchange) {
        int status = 200;
        Object answer;
        try {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            String path = exchange.getRequestURI().getRawPath();
            if (secret != null && !path.endsWith("/oauth/tokens")
                    && !secret.equals(exchange.getRequestHeaders().getFirst("Authorization"))) {
                status = 401;
                answer = error(401, "NotAuthorizedException", "who are you");
            } else {
                answer = answer(exchange.getRequestMethod(), path.split("/"), body);
            }
        } catch (Throwable error) {
            status = status(error);
            answer = error(status, error.getClass().getSimpleName(), String.valueOf(error.getMessage()));
        }
        try {
            byte[] bytes = answer == null ? new byte[0] : MAPPER.writeValueAsBytes(answer);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(bytes.length == 0 ? 204 : status, bytes.length == 0 ? -1 : bytes.length);
            exchange.getResponseBody().write(bytes);
        } catch (Exception error) {
            error.printStackTrace();
        }
        exchange.close();
    }

    // path: "", "v1", then what the catalog's specification says
    private static synchronized Object answer(String method, String[] path, String body) throws Exception {
        if (path[2].equals("config")) {
            return ConfigResponse.builder().build();
        }
        if (path[2].equals("oauth")) {
            String given = secret == null ? "" : secret.substring(7);
            if (!("&" + body + "&").contains("&client_secret=hush-hush&")) {
                throw new SecurityException(body);
            }
            return Map.of("access_token", given, "token_type", "bearer", "expires_in", 3600);
        }
        if (path.length == 3 && method.equals("POST")) {
            return CatalogHandlers.createNamespace(catalog, read(body, CreateNamespaceRequest.class));
        }
        Namespace namespace = Namespace.of(decoded(path[3]));
        if (path.length == 4) {
            return CatalogHandlers.loadNamespace(catalog, namespace);
        }
        if (path[4].equals("register")) {
            return CatalogHandlers.registerTable(catalog, namespace, read(body, RegisterTableRequest.class));
        }
        if (path.length == 5) {
            return method.equals("GET")
                    ? CatalogHandlers.listTables(catalog, namespace)
                    : CatalogHandlers.createTable(catalog, namespace, read(body, CreateTableRequest.class));
        }
        TableIdentifier table = TableIdentifier.of(namespace, decoded(path[5]));
        switch (method) {
            case "GET":
                return CatalogHandlers.loadTable(catalog, table);
            case "HEAD":
                CatalogHandlers.tableExists(catalog, table);
                return null;
            case "DELETE":
                CatalogHandlers.dropTable(catalog, table);
                return null;
            default:
                return CatalogHandlers.updateTable(catalog, table, read(body, UpdateTableRequest.class));
        }
    }

    private static <T> T read(String body, Class<T> type) throws Exception {
        return MAPPER.readValue(body, type);
    }

    private static String decoded(String part) {
        return URLDecoder.decode(part, StandardCharsets.UTF_8);
    }

    private static int status(Throwable error) {
        if (error instanceof NoSuchTableException || error instanceof NoSuchNamespaceException) {
            return 404;
        }
        if (error instanceof AlreadyExistsException || error instanceof CommitFailedException) {
            return 409;
        }
        if (error instanceof SecurityException) {
            return 401;
        }
        return error instanceof CommitStateUnknownException ? 500 : 400;
    }

    private static ErrorResponse error(int status, String type, String message) {
        return ErrorResponse.builder().responseCode(status).withType(type).withMessage(message).build();
    }
}
