import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own client in a run of chaos: a producer, and two members of a group of the consumer protocol (KIP-848).
 *
 * Arguments: servers, run, topic, its partitions, the compacted topic, its partitions, the producer's number, records a second,
 * and the seconds after which silence is a finding. tests/chaos/clients/__init__.py says what is printed and read.
 */
public final class ChaosClient {
    private static final String NAME = "java";
    private static final int RECORD_BYTES = 200;
    private static final int TABLE_EVERY = 10;
    private static final int TABLE_KEYS = 10;
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration ANSWER = Duration.ofSeconds(10);

    private final PrintStream answers;
    private final String servers;
    private final String run;
    private final String topic;
    private final int partitions;
    private final String table;
    private final int tablePartitions;
    private final int producer;
    private final double rate;
    private final int timeoutMs;
    private final Map<Integer, Long> positions = new ConcurrentHashMap<>();
    private volatile boolean isQuiet;
    private volatile boolean isOver;
    private volatile long read;

    private ChaosClient(PrintStream answers, String[] arguments) {
        this.answers = answers;
        servers = arguments[0];
        run = arguments[1];
        topic = arguments[2];
        partitions = Integer.parseInt(arguments[3]);
        table = arguments[4];
        tablePartitions = Integer.parseInt(arguments[5]);
        producer = Integer.parseInt(arguments[6]);
        rate = Double.parseDouble(arguments[7]);
        timeoutMs = (int) (1000 * Double.parseDouble(arguments[8]));
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever a library prints must not get between the answers
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        new ChaosClient(answers, arguments).serve();
    }

    private void serve() throws Exception {
        Thread sending = started(this::send);
        List<Thread> members = List.of(started(() -> new Member(1).run()), started(() -> new Member(2).run()));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String word = line.split(" ")[0];
            if (word.equals("quiet")) {
                isQuiet = true;
                sending.join();
            } else if (word.equals("finish")) {
                finish(members, ends(line));
            }
            synchronized (answers) {
                answers.println("!" + word);
            }
        }
        System.exit(0);
    }

    private static Thread started(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** Finds the offsets of the topic in `finish {"topic": {"0": 17, …}, …}`. */
    private Map<Integer, Long> ends(String line) {
        Map<Integer, Long> ends = new ConcurrentHashMap<>();
        Matcher named = Pattern.compile("\"" + Pattern.quote(topic) + "\": \\{([^}]*)\\}").matcher(line);
        if (named.find()) {
            Matcher each = Pattern.compile("\"(\\d+)\": (\\d+)").matcher(named.group(1));
            while (each.find()) {
                ends.put(Integer.parseInt(each.group(1)), Long.parseLong(each.group(2)));
            }
        }
        return ends;
    }

    private void finish(List<Thread> members, Map<Integer, Long> ends) throws InterruptedException {
        long before = -1;
        for (long silentSince = System.nanoTime(); System.nanoTime() - silentSince < timeoutMs * 1_000_000L; Thread.sleep(50)) {
            if (ends.entrySet().stream().allMatch(end -> positions.getOrDefault(end.getKey(), 0L) >= end.getValue())) {
                break;
            }
            if (read > before) {
                before = read;
                silentSince = System.nanoTime();
            }
        }
        isOver = true;
        for (Thread member : members) {
            member.join();
        }
        ends.forEach((partition, end) -> event("ended", "\"consumer\":\"" + NAME + "\",\"partition\":" + partition
            + ",\"position\":" + positions.getOrDefault(partition, 0L)));
    }

    private void event(String name, String fields) {
        write("{\"event\":\"" + name + "\",\"time_ms\":" + System.currentTimeMillis() + "," + fields + "}");
    }

    private void write(String text) {
        synchronized (answers) {
            answers.println(System.nanoTime() + " " + text);
        }
    }

    // ---- sending

    private void send() {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "acks", "all", "enable.idempotence", true,
            "compression.type", "zstd", "linger.ms", 5, "delivery.timeout.ms", 2 * timeoutMs);
        KafkaProducer<byte[], byte[]> client = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        long begun = System.nanoTime();
        for (long sequence = 0; !isQuiet; sequence++) {
            sendOne(client, sequence);
            if (sequence % TABLE_EVERY == 0) {
                sendToTable(client, sequence / TABLE_EVERY);
            }
            pause(begun + (long) (1e9 * (sequence + 1) / rate) - System.nanoTime());
        }
        started(client::flush); // ends when all is answered; what is not by then is stuck
        client.close(Duration.ofMillis(timeoutMs));
    }

    private void sendOne(KafkaProducer<byte[], byte[]> client, long sequence) {
        int partition = (int) ((sequence + producer) % partitions);
        String which = "\"producer\":" + producer + ",\"sequence\":" + sequence + ",";
        byte[] key = (run + "/" + producer + "/" + sequence).getBytes(StandardCharsets.UTF_8);
        event("sent", which + "\"partition\":" + partition);
        try {
            client.send(new ProducerRecord<>(topic, partition, key, value(sequence)), (told, error) -> {
                if (error == null) {
                    event("acknowledged", which + "\"offset\":" + (told.hasOffset() ? told.offset() : "null"));
                } else {
                    event("failed", which + "\"error\":\"" + error.getClass().getSimpleName() + "\",\"definite\":false");
                }
            });
        } catch (KafkaException error) { // then nobody is called back
            event("failed", which + "\"error\":\"" + error.getClass().getSimpleName() + "\",\"definite\":false");
        }
    }

    private byte[] value(long sequence) {
        ByteBuffer value = ByteBuffer.allocate(RECORD_BYTES);
        value.put(HexFormat.of().parseHex(run)).putInt(producer).putLong(sequence);
        for (int filler = 0; value.remaining() > 4; filler++) {
            value.put((byte) filler);
        }
        CRC32 checksum = new CRC32();
        checksum.update(value.array(), 0, value.position());
        return value.putInt((int) checksum.getValue()).array();
    }

    private void sendToTable(KafkaProducer<byte[], byte[]> client, long sequence) {
        int partition = (int) (sequence % TABLE_KEYS % tablePartitions);
        String name = NAME + "-" + sequence % TABLE_KEYS;
        String which = partition + " " + name + " " + sequence;
        write("table sent " + which);
        byte[] key = name.getBytes(StandardCharsets.UTF_8);
        byte[] value = Long.toString(sequence).getBytes(StandardCharsets.UTF_8);
        try {
            client.send(new ProducerRecord<>(table, partition, key, value), (told, error) -> {
                if (error == null && told.hasOffset()) {
                    write("table acknowledged " + which + " " + told.offset());
                }
            });
        } catch (KafkaException error) {
            event("error", "\"client\":\"" + NAME + "\",\"error\":\"" + error.getClass().getSimpleName() + "\"");
        }
    }

    private static void pause(long nanoseconds) {
        try {
            if (nanoseconds > 0) {
                Thread.sleep(nanoseconds / 1_000_000, (int) (nanoseconds % 1_000_000));
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    // ---- reading

    /** Reads as a member of the group, and commits what it has read. */
    private final class Member implements ConsumerRebalanceListener {
        private final String name;
        private KafkaConsumer<byte[], byte[]> client;

        private Member(int number) {
            name = NAME + "-" + number;
        }

        private void run() {
            event("consumer", "\"consumer\":\"" + name + "\",\"role\":\"member\",\"group\":\"" + NAME + "\"");
            while (!isOver) {
                try (KafkaConsumer<byte[], byte[]> opened = open()) {
                    client = opened;
                    client.subscribe(List.of(topic), this);
                    while (!isOver) {
                        read();
                    }
                } catch (KafkaException | IllegalStateException error) {
                    note(error); // and begins as a new member. Version 4.3 loses a position now and then when it is moved
                }
            }
        }

        private KafkaConsumer<byte[], byte[]> open() {
            Map<String, Object> settings = Map.of("bootstrap.servers", servers, "group.id", NAME, "group.protocol", "consumer",
                "enable.auto.commit", false, "auto.offset.reset", "earliest", "client.id", name);
            return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        private void read() {
            var polled = client.poll(POLL);
            for (TopicPartition partition : polled.partitions()) {
                List<String> records = new ArrayList<>();
                List<String> corrupt = new ArrayList<>();
                long next = 0;
                for (ConsumerRecord<byte[], byte[]> message : polled.records(partition)) {
                    records.add(written(message, corrupt));
                    next = message.offset() + 1;
                }
                event("polled", about(partition) + ",\"records\":[" + String.join(",", records) + "],\"corrupt\":["
                    + String.join(",", corrupt) + "]");
                synchronized (positions) {
                    read += records.size();
                }
                positions.merge(partition.partition(), next, Math::max);
            }
            for (TopicPartition partition : polled.partitions()) {
                List<ConsumerRecord<byte[], byte[]>> messages = polled.records(partition);
                commit(partition, messages.get(messages.size() - 1).offset() + 1);
            }
        }

        /** Writes a record as `[offset,producer,sequence]`. One that nobody can have sent is that of nobody. */
        private String written(ConsumerRecord<byte[], byte[]> message, List<String> corrupt) {
            byte[] value = message.value();
            String[] key = new String(message.key() == null ? new byte[0] : message.key(), StandardCharsets.UTF_8).split("/");
            if (value == null || value.length != RECORD_BYTES || key.length != 3 || !key[0].equals(run)) {
                return "[" + message.offset() + ",-1,0]";
            }
            CRC32 checksum = new CRC32();
            checksum.update(value, 0, RECORD_BYTES - 4);
            ByteBuffer fields = ByteBuffer.wrap(value);
            boolean isIntact = Arrays.equals(Arrays.copyOf(value, 8), HexFormat.of().parseHex(run))
                && key[1].equals(Integer.toString(fields.getInt(8))) && key[2].equals(Long.toString(fields.getLong(12)))
                && fields.getInt(RECORD_BYTES - 4) == (int) checksum.getValue();
            if (!isIntact) {
                corrupt.add(Long.toString(message.offset()));
            }
            return "[" + message.offset() + "," + key[1] + "," + key[2] + "]";
        }

        private void commit(TopicPartition partition, long offset) {
            event("commit", about(partition) + ",\"offset\":" + offset);
            String stored = "true";
            String said = "null";
            try {
                client.commitSync(Map.of(partition, new OffsetAndMetadata(offset)), ANSWER);
            } catch (KafkaException error) {
                stored = "null";
                said = "\"" + error.getClass().getSimpleName() + "\"";
            }
            event("committed", about(partition) + ",\"stored\":" + stored + ",\"error\":" + said);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            // What was read is committed before the next poll.
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            for (TopicPartition partition : assigned) {
                event("asked", about(partition));
                String position = "null";
                try {
                    OffsetAndMetadata told = client.committed(Set.of(partition), ANSWER).get(partition);
                    event("told", about(partition) + ",\"offset\":" + (told == null ? "null" : told.offset()));
                    long offset = told == null ? 0 : told.offset();
                    client.seek(partition, offset);
                    position = Long.toString(offset);
                } catch (WakeupException error) {
                    throw error;
                } catch (KafkaException error) {
                    note(error);
                }
                event("assigned", about(partition) + ",\"position\":" + position);
            }
        }

        private String about(TopicPartition partition) {
            return "\"consumer\":\"" + name + "\",\"partition\":" + partition.partition();
        }

        private void note(RuntimeException error) {
            event("error", "\"client\":\"" + name + "\",\"error\":\"" + error.getClass().getSimpleName() + "\"");
        }
    }
}
