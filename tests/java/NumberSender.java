import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends numbers to every partition of a topic, each a moment after the one before, with acks=all and idempotence.
 *
 * Arguments: the topic, the number of its partitions, and the word before each number. A line of standard input that names
 * servers begins, the line after it ends, and so on: a test takes less time than to start a JVM. Prints `partition offset value`
 * for each record that is acknowledged, a line that begins with `error` for each one that is not, and `end`.
 */
public final class NumberSender {
    private static final int PAUSE_MS = 20;
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final KafkaProducer<String, String> producer;
    private final PrintStream answers;
    private volatile boolean isStopped;

    private NumberSender(String servers, PrintStream answers) {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "acks", "all", "enable.idempotence", true, "linger.ms", 0);
        this.producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        this.answers = answers;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever a library prints must not get between the answers
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String servers = input.readLine(); servers != null; servers = input.readLine()) {
            NumberSender sender = new NumberSender(servers, answers);
            Thread sending = new Thread(() -> sender.sendAll(arguments[0], Integer.parseInt(arguments[1]), arguments[2]));
            sending.start();
            input.readLine(); // at the end of the input, too
            sender.isStopped = true;
            sending.join();
            sender.producer.close(PATIENCE);
            answers.println("end");
        }
    }

    private void sendAll(String topic, int partitions, String word) {
        try {
            for (int number = 0; !isStopped; number++) {
                for (int partition = 0; partition < partitions; partition++) {
                    send(new ProducerRecord<>(topic, partition, null, word + " " + number));
                }
                Thread.sleep(PAUSE_MS);
            }
        } catch (Exception error) {
            answers.println("error " + error);
        }
    }

    private void send(ProducerRecord<String, String> record) {
        producer.send(record, (told, error) -> answers.println(
            error == null ? told.partition() + " " + told.offset() + " " + record.value() : "error " + error));
    }
}
