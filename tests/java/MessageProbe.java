import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/** Each line in is "name version bytes-in-hex"; each line out is the bytes that Kafka writes for it, and its JSON. */
public class MessageProbe {
    private static final String[] PLACES = {
        "org.apache.kafka.common.message.%sData", "org.apache.kafka.common.message.%s", "org.apache.kafka.common.metadata.%s",
        "org.apache.kafka.coordinator.group.generated.%s", "org.apache.kafka.raft.generated.%s",
        "org.apache.kafka.coordinator.transaction.generated.%s",
    };
    private static final Map<String, Class<?>> CLASSES = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", -1);
            out.println(answer(parts[0], Short.parseShort(parts[1]), HexFormat.of().parseHex(parts[2])));
        }
        out.flush();
    }

    private static String answer(String name, short version, byte[] bytes) throws Exception {
        Class<?> type = CLASSES.computeIfAbsent(name, MessageProbe::find);
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Object message = type.getConstructor(Readable.class, short.class).newInstance(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining())
            return "- " + buffer.remaining() + " bytes left";
        Object json = Class.forName(type.getName() + "JsonConverter")
            .getMethod("write", type, short.class).invoke(null, message, version);
        return HexFormat.of().formatHex(written((Message) message, version)) + " " + json;
    }

    private static byte[] written(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static Class<?> find(String name) {
        for (String place : PLACES) {
            try {
                return Class.forName(String.format(place, name));
            } catch (ClassNotFoundException e) {
                continue;
            }
        }
        throw new IllegalArgumentException("Kafka has no message " + name);
    }
}
