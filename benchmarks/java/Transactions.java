import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * One producer that commits one transaction after the other, to the rules of native/load.h: key=value words, "ready", a line on stdin, one
 * line of JSON. After a second line on stdin all is read back under read_committed. The version of the client decides about the protocol.
 */
public class Transactions {
    static final int VALUE_BYTES = 100;
    static final int AT_LEAST = 5; // transactions before the sample and in it, however long they take: the first ones compile the client
    static final Duration SILENCE = Duration.ofSeconds(20);

    final Map<String, String> options = new HashMap<>();
    final String topic;
    final int partitions;
    final int records;
    final long[] written;

    Transactions(String[] words) {
        for (String word : words) options.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
        topic = options.get("topic");
        partitions = number("partitions");
        records = number("records");
        written = new long[partitions];
    }

    int number(String key) {
        return Integer.parseInt(options.get(key));
    }

    public static void main(String[] words) throws Exception {
        try {
            new Transactions(words).run();
        } catch (Wrong wrong) {
            System.out.printf("{\"error\": \"%s\"}%n", wrong.getMessage().replace('"', '\''));
            System.exit(1);
        }
    }

    void run() throws Exception {
        Samples first = new Samples(), commit = new Samples(), whole = new Samples();
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            producer.initTransactions();
            long warm = System.nanoTime() + number("before") * 1_000_000L;
            Samples unused = new Samples(), warmed = new Samples();
            while (System.nanoTime() < warm || warmed.count < AT_LEAST) transaction(producer, unused, unused, warmed);
            System.out.println("ready");
            if (System.in.read() < 0) return;
            long started = System.nanoTime(), end = started + number("milliseconds") * 1_000_000L, now;
            do {
                transaction(producer, first, commit, whole);
                now = System.nanoTime();
            } while (now < end || whole.count < AT_LEAST);
            System.out.printf("{\"seconds\": %.6f, \"transactions\": %d, %s, %s, %s}%n", (now - started) / 1e9, whole.count,
                first.text("first_send"), commit.text("commit"), whole.text("transaction"));
            if (System.in.read() < 0) return;
            check();
            System.out.println("{}");
        }
    }

    /** Sends at once: since 4.0 a producer keeps a record for 5 ms by itself, which would hide what the broker takes. */
    KafkaProducer<byte[], byte[]> producer() {
        Map<String, Object> settings = Map.of("bootstrap.servers", options.get("address"), "transactional.id", topic, "linger.ms", 0);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    void transaction(KafkaProducer<byte[], byte[]> producer, Samples first, Samples commit, Samples whole) throws Exception {
        long began = System.nanoTime();
        producer.beginTransaction();
        send(producer, 0).get();
        first.add(System.nanoTime() - began);
        for (int record = 1; record < records; record++) send(producer, record);
        long committing = System.nanoTime();
        producer.commitTransaction();
        long done = System.nanoTime();
        commit.add(done - committing);
        whole.add(done - began);
    }

    Future<RecordMetadata> send(KafkaProducer<byte[], byte[]> producer, int record) {
        int partition = record % partitions;
        byte[] value = ByteBuffer.allocate(VALUE_BYTES).putLong(written[partition]++).array();
        return producer.send(new ProducerRecord<>(topic, partition, null, value));
    }

    /** Reads every committed record of each partition once, in order: any other was lost, repeated or moved. */
    void check() throws Wrong {
        Map<String, Object> settings = Map.of("bootstrap.servers", options.get("address"), "isolation.level", "read_committed");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> all = IntStream.range(0, partitions).mapToObj(index -> new TopicPartition(topic, index)).collect(Collectors.toList());
            consumer.assign(all);
            consumer.seekToBeginning(all);
            long[] read = new long[partitions];
            long silent = System.nanoTime() + SILENCE.toNanos();
            while (!Arrays.equals(read, written)) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    if (ByteBuffer.wrap(record.value()).getLong() != read[record.partition()]++) {
                        throw new Wrong("offset " + record.offset() + " of partition " + record.partition() + " does not hold what was committed there");
                    }
                    silent = System.nanoTime() + SILENCE.toNanos();
                }
                if (System.nanoTime() > silent) throw new Wrong(Arrays.stream(read).sum() + " records came back of " + Arrays.stream(written).sum() + " that were committed");
            }
        }
    }

    static class Wrong extends Exception {
        Wrong(String message) {
            super(message);
        }
    }

    static class Samples {
        long[] nanoseconds = new long[1024];
        int count;

        void add(long value) {
            if (count == nanoseconds.length) nanoseconds = Arrays.copyOf(nanoseconds, 2 * count);
            nanoseconds[count++] = value;
        }

        String text(String name) {
            Arrays.sort(nanoseconds, 0, count);
            return String.format("\"%s_ms_p50\": %.4f, \"%s_ms_p99\": %.4f", name, quantile(500), name, quantile(990));
        }

        double quantile(int perMille) {
            return nanoseconds[(count * perMille + 999) / 1000 - 1] / 1e6;
        }
    }
}
