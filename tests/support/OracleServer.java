import java.io.BufferedReader;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Keeps one JVM for many batches of Oracle.java: each line of standard input names a script of `oracle batch`, whose
 * replies go to standard output. Runs as a source file, with the arguments that java was meant to have:
 * {@code -cp CLASSPATH Oracle ...}.
 */
public final class OracleServer {
    public static void main(String[] args) throws Exception {
        PrintStream replies = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        URLClassLoader loader = new URLClassLoader(urls(args[1]));
        Thread.currentThread().setContextClassLoader(loader);
        Class<?> oracle = loader.loadClass("Oracle");
        Method batch = method(oracle, "batch", String.class, PrintStream.class);
        replies.println("ready");
        replies.flush();
        BufferedReader scripts = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String script = scripts.readLine(); script != null; script = scripts.readLine()) {
            batch.invoke(null, script, replies);
        }
        method(oracle, "deleteTmp").invoke(null);
        System.exit(0); // Paimon's thread pools would keep the JVM alive
    }

    private static Method method(Class<?> owner, String name, Class<?>... parameters) throws Exception {
        Method found = owner.getDeclaredMethod(name, parameters);
        found.setAccessible(true);
        return found;
    }

    private static URL[] urls(String classPath) throws Exception {
        List<URL> found = new ArrayList<>();
        for (String entry : classPath.split(File.pathSeparator)) {
            if (entry.endsWith("*")) {
                for (File jar : new File(entry.substring(0, entry.length() - 1)).listFiles((d, n) -> n.endsWith(".jar"))) {
                    found.add(jar.toURI().toURL());
                }
            } else {
                found.add(new File(entry).toURI().toURL());
            }
        }
        return found.toArray(new URL[0]);
    }
}
