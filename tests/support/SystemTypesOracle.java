import java.nio.file.Path;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.system.SystemTableLoader;
import org.apache.paimon.types.DataField;

/** The columns of all system tables of a table and of its warehouse: {@code WAREHOUSE DATABASE TABLE}. */
public final class SystemTypesOracle {
    public static void main(String[] args) throws Exception {
        Options options = new Options();
        options.set("warehouse", Path.of(args[0]).toUri().toString());
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options))) {
            for (String name : SystemTableLoader.SYSTEM_TABLES) {
                if (!name.equals("row_tracking")) {
                    show(catalog, args[1], args[2] + "$" + name);
                }
            }
            for (String name : SystemTableLoader.GLOBAL_SYSTEM_TABLES) {
                show(catalog, "sys", name);
            }
        }
    }

    private static void show(Catalog catalog, String database, String name) throws Exception {
        for (DataField field : catalog.getTable(Identifier.create(database, name)).rowType().getFields()) {
            System.out.println(database + "." + name + "\t" + field.name() + "\t" + field.type());
        }
    }
}
