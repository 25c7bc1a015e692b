// Kafka's own command-line tools, unmodified, run inside this process: each takes a second or two in a JVM of its own.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

final class Tools {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** {"op": "tool", "tool": class, "arguments", "stdin"} -> {"code", "printed", "complained"}: what its main() does. */
    static ObjectNode run(JsonNode request) throws Exception {
        List<String> arguments = new ArrayList<>();
        request.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream err = System.err;
        InputStream in = System.in;
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(request.path("stdin").asText("").getBytes(StandardCharsets.UTF_8)));
        int code;
        try {
            code = end(request.get("tool").asText(), arguments.toArray(new String[0]));
        } finally {
            System.setOut(out);
            System.setErr(err);
            System.setIn(in);
        }
        ObjectNode answer = JSON.createObjectNode().put("code", code);
        return answer.put("printed", printed.toString(StandardCharsets.UTF_8)).put("complained", complained.toString(StandardCharsets.UTF_8));
    }

    /** The code that the process would have ended with. */
    private static int end(String tool, String[] arguments) throws Exception {
        int[] code = {0};
        boolean[] exited = {false};
        List<Runnable> hooks = new ArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        Exit.setExitProcedure((status, message) -> {
            if (!exited[0]) {
                code[0] = status;
                exited[0] = true;
                runAll(hooks);
                silence(); // some tools catch what is thrown here, complain of it and exit once more
            }
            throw new Exited();
        });
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!exited[0]) {
                System.err.print("Exception in thread \"main\" ");
                thrown.getCause().printStackTrace();
                code[0] = 1;
            }
        } finally {
            if (!exited[0]) runAll(hooks);
            Exit.resetExitProcedure();
            Exit.resetShutdownHookAdder();
        }
        return code[0];
    }

    private static void runAll(List<Runnable> hooks) {
        hooks.forEach(Runnable::run);
        hooks.clear();
    }

    private static void silence() {
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        System.setErr(new PrintStream(OutputStream.nullOutputStream()));
    }

    private static final class Exited extends RuntimeException {}
}
