import java.lang.reflect.Field;
import java.time.Duration;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.options.ConfigOption;
import org.apache.paimon.options.FallbackKey;

/** Prints each option of CoreOptions, with tabs between: key, default (empty: none), whether immutable, older names. */
public final class OptionsOracle {
    public static void main(String[] args) throws Exception {
        for (Field field : CoreOptions.class.getFields()) {
            if (field.getType() == ConfigOption.class) {
                ConfigOption<?> option = (ConfigOption<?>) field.get(null);
                Object value = option.hasDefaultValue() ? option.defaultValue() : "";
                if (value instanceof Duration) {
                    value = ((Duration) value).toMillis() + " ms";
                } else if (value instanceof java.util.Map) {
                    value = ""; // none is set
                }
                boolean immutable = CoreOptions.IMMUTABLE_OPTIONS.contains(option.key());
                StringBuilder older = new StringBuilder();
                for (FallbackKey key : option.fallbackKeys()) {
                    older.append(key.getKey()).append(' ');
                }
                System.out.println(option.key() + "\t" + value + "\t" + immutable + "\t" + older);
            }
        }
    }
}
