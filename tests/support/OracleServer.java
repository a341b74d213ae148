import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import javax.tools.ToolProvider;

/**
 * Keeps one JVM for many batches of Oracle.java: each line of standard input names a script of `oracle batch`, whose
 * replies go to standard output. A line {@code main CLASS OUTPUT ARGUMENT...}, with tabs between, runs the program
 * CLASS.java of the working directory; its output goes to a file, and the reply is 0, or how it failed. Has the
 * arguments that java was meant to have: {@code -cp CLASSPATH Oracle ...}.
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
            String[] words = script.split("\t");
            if (words[0].equals("main")) {
                replies.println(run(loader, args[1], words));
                replies.flush();
            } else {
                batch.invoke(null, script, replies);
            }
        }
        method(oracle, "deleteTmp").invoke(null);
        System.exit(0); // Paimon's thread pools would keep the JVM alive
    }

    private static String run(ClassLoader loader, String classPath, String[] words) throws Exception {
        String name = words[1];
        File output = new File(words[2]);
        File classes = new File(output.getParentFile(), "classes");
        classes.mkdirs();
        ByteArrayOutputStream wrong = new ByteArrayOutputStream();
        PrintStream before = System.out;
        try (PrintStream said = new PrintStream(output, "UTF-8");
                URLClassLoader own = new URLClassLoader(new URL[] {classes.toURI().toURL()}, loader)) {
            if (!new File(classes, name + ".class").exists()) {
                String[] options = {"-nowarn", "-proc:none", "-cp", classPath, "-d", classes.getPath(), name + ".java"};
                if (ToolProvider.getSystemJavaCompiler().run(null, wrong, wrong, options) != 0) {
                    return wrong.toString().replace('\n', ' ');
                }
            }
            System.setOut(said);
            String[] arguments = Arrays.copyOfRange(words, 3, words.length);
            method(own.loadClass(name), "main", String[].class).invoke(null, (Object) arguments);
            return "0";
        } catch (InvocationTargetException e) {
            e.getCause().printStackTrace(new PrintStream(wrong, true));
            return wrong.toString().replace('\n', ' ');
        } finally {
            System.setOut(before);
        }
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
