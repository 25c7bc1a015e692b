// The Java clients behind the drivers' contract (see harness.py): a request per line in, an answer per line out, JSON.
// One source for every version of the client: the class path decides which one runs.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Members MEMBERS = new Members();
    private static final int LARGEST_BYTES = 16 * 1024 * 1024;

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever a library prints must not get between the answers
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.write(JSON.writeValueAsBytes(answer(JSON.readTree(line))));
            answers.write('\n');
            answers.flush();
        }
    }

    private static ObjectNode answer(JsonNode request) {
        try {
            return perform(request);
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            return JSON.createObjectNode().put("error", cause.getClass().getSimpleName()).put("message", String.valueOf(cause.getMessage()));
        }
    }

    private static ObjectNode perform(JsonNode request) throws Exception {
        switch (request.get("op").asText()) {
            case "produce": return produce(request);
            case "consume": return consume(request);
            case "offsets": return offsets(request);
            case "create_topic": return createTopic(request);
            case "list_topics": return listTopics(request);
            case "describe_topic": return describeTopic(request);
            case "topic_configs": return topicConfigs(request);
            case "alter_topic_configs": return alterTopicConfigs(request);
            case "create_partitions": return createPartitions(request);
            case "delete_records": return deleteRecords(request);
            case "delete_topic": return deleteTopic(request);
            case "join": return MEMBERS.join(request);
            case "member_states": return MEMBERS.states(request);
            case "leave": return MEMBERS.leave(request);
            case "commit": return MEMBERS.commit(request);
            case "committed": return MEMBERS.committed(request);
            case "seek_to_committed": return MEMBERS.seekToCommitted(request);
            case "list_groups": return GroupAdmin.list(request);
            case "describe_group": return GroupAdmin.describe(request);
            case "group_offsets": return GroupAdmin.offsets(request, request.get("group").asText());
            case "alter_group_offsets": return GroupAdmin.alterOffsets(request);
            case "delete_group_offsets": return GroupAdmin.deleteOffsets(request);
            case "delete_group": return GroupAdmin.delete(request);
            case "remove_static_member": return GroupAdmin.removeStaticMember(request);
            case "tool": return GroupAdmin.tool(request);
            default: throw new IllegalArgumentException("unknown op " + request.get("op"));
        }
    }

    // ---- records

    private static ObjectNode produce(JsonNode request) throws Exception {
        Map<String, Object> settings = settings(request);
        settings.put("acks", request.get("acks").asText());
        settings.put("compression.type", request.get("compression").asText());
        settings.put("enable.idempotence", request.get("idempotence").asBoolean());
        settings.put("max.request.size", LARGEST_BYTES);
        settings.put("buffer.memory", 4L * LARGEST_BYTES);
        settings.put("linger.ms", 20);
        settings.put("delivery.timeout.ms", 20_000);
        settings.put("request.timeout.ms", 15_000);
        settings.put("max.block.ms", 15_000);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode record : request.get("records")) {
                sent.add(producer.send(producerRecord(request.get("topic").asText(), record)));
            }
            producer.flush();
            ObjectNode answer = JSON.createObjectNode();
            ArrayNode offsets = answer.putArray("offsets");
            for (Future<RecordMetadata> future : sent) {
                offsets.add(future.get().offset());
            }
            return answer;
        }
    }

    private static ProducerRecord<byte[], byte[]> producerRecord(String topic, JsonNode record) {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : record.path("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        }
        Long timestamp = record.path("timestamp").isNumber() ? record.get("timestamp").asLong() : null;
        return new ProducerRecord<>(topic, record.get("partition").asInt(), timestamp, bytes(record.get("key")), bytes(record.get("value")), headers);
    }

    private static ObjectNode consume(JsonNode request) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            List<TopicPartition> partitions = partitions(request);
            consumer.assign(partitions);
            seek(consumer, partitions, request.get("start"));
            ArrayNode records = JSON.createArrayNode();
            int count = request.get("count").asInt();
            long deadline = System.currentTimeMillis() + request.get("timeout_ms").asLong();
            while (records.size() < count && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    records.add(json(record));
                }
            }
            ObjectNode answer = JSON.createObjectNode();
            answer.set("records", records);
            return answer;
        }
    }

    private static void seek(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions, JsonNode start) {
        if (start.has("offset")) {
            partitions.forEach(partition -> consumer.seek(partition, start.get("offset").asLong()));
        } else if (start.has("timestamp")) {
            found(consumer, partitions, start.get("timestamp").asLong()).forEach((partition, offset) -> consumer.seek(partition, offset.offset()));
        } else {
            consumer.seekToBeginning(partitions);
        }
    }

    private static ObjectNode offsets(JsonNode request) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            List<TopicPartition> partitions = partitions(request);
            TopicPartition partition = partitions.get(0);
            ObjectNode answer = JSON.createObjectNode();
            answer.put("beginning", consumer.beginningOffsets(partitions).get(partition));
            answer.put("end", consumer.endOffsets(partitions).get(partition));
            ArrayNode answers = answer.putArray("at");
            for (JsonNode timestamp : request.get("timestamps")) {
                OffsetAndTimestamp offset = found(consumer, partitions, timestamp.asLong()).get(partition);
                answers.add(offset == null ? null : offset.offset());
            }
            return answer;
        }
    }

    private static Map<TopicPartition, OffsetAndTimestamp> found(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions, long timestamp) {
        Map<TopicPartition, Long> wanted = new HashMap<>();
        partitions.forEach(partition -> wanted.put(partition, timestamp));
        return consumer.offsetsForTimes(wanted);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode request) {
        Map<String, Object> settings = settings(request);
        settings.put("enable.auto.commit", false);
        settings.put("max.partition.fetch.bytes", LARGEST_BYTES);
        settings.put("default.api.timeout.ms", 15_000);
        settings.put("request.timeout.ms", 15_000);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    // ---- admin

    private static ObjectNode createTopic(JsonNode request) throws Exception {
        NewTopic topic = new NewTopic(request.get("topic").asText(), Optional.of(request.get("partitions").asInt()), Optional.empty());
        topic.configs(strings(request.get("configs")));
        try (Admin admin = Admin.create(settings(request))) {
            admin.createTopics(List.of(topic)).all().get();
        }
        return JSON.createObjectNode();
    }

    private static ObjectNode listTopics(JsonNode request) throws Exception {
        try (Admin admin = Admin.create(settings(request))) {
            ObjectNode answer = JSON.createObjectNode();
            ArrayNode topics = answer.putArray("topics");
            admin.listTopics().names().get().forEach(topics::add);
            return answer;
        }
    }

    private static ObjectNode describeTopic(JsonNode request) throws Exception {
        String topic = request.get("topic").asText();
        try (Admin admin = Admin.create(settings(request))) {
            int partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            return JSON.createObjectNode().put("partitions", partitions);
        }
    }

    private static ObjectNode topicConfigs(JsonNode request) throws Exception {
        ConfigResource topic = resource(request);
        try (Admin admin = Admin.create(settings(request))) {
            ObjectNode answer = JSON.createObjectNode();
            ObjectNode configs = answer.putObject("configs");
            for (ConfigEntry entry : admin.describeConfigs(List.of(topic)).all().get().get(topic).entries()) {
                configs.put(entry.name(), entry.value());
            }
            return answer;
        }
    }

    private static ObjectNode alterTopicConfigs(JsonNode request) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        strings(request.get("configs")).forEach((key, value) -> changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
        try (Admin admin = Admin.create(settings(request))) {
            admin.incrementalAlterConfigs(Map.of(resource(request), changes)).all().get();
        }
        return JSON.createObjectNode();
    }

    private static ObjectNode createPartitions(JsonNode request) throws Exception {
        try (Admin admin = Admin.create(settings(request))) {
            admin.createPartitions(Map.of(request.get("topic").asText(), NewPartitions.increaseTo(request.get("partitions").asInt()))).all().get();
        }
        return JSON.createObjectNode();
    }

    private static ObjectNode deleteRecords(JsonNode request) throws Exception {
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
        try (Admin admin = Admin.create(settings(request))) {
            RecordsToDelete before = RecordsToDelete.beforeOffset(request.get("before").asLong());
            long low = admin.deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition).get().lowWatermark();
            return JSON.createObjectNode().put("low_watermark", low);
        }
    }

    private static ObjectNode deleteTopic(JsonNode request) throws Exception {
        try (Admin admin = Admin.create(settings(request))) {
            admin.deleteTopics(List.of(request.get("topic").asText())).all().get();
        }
        return JSON.createObjectNode();
    }

    // ---- JSON

    private static Map<String, Object> settings(JsonNode request) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", request.get("bootstrap").asText());
        return settings;
    }

    private static ConfigResource resource(JsonNode request) {
        return new ConfigResource(ConfigResource.Type.TOPIC, request.get("topic").asText());
    }

    private static List<TopicPartition> partitions(JsonNode request) {
        List<TopicPartition> partitions = new ArrayList<>();
        request.get("partitions").forEach(partition -> partitions.add(new TopicPartition(request.get("topic").asText(), partition.asInt())));
        return partitions;
    }

    private static Map<String, String> strings(JsonNode object) {
        Map<String, String> strings = new HashMap<>();
        object.fieldNames().forEachRemaining(name -> strings.put(name, object.get(name).asText()));
        return strings;
    }

    private static ObjectNode json(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode json = JSON.createObjectNode();
        json.put("partition", record.partition()).put("offset", record.offset()).put("timestamp", record.timestamp());
        json.put("key", text(record.key())).put("value", text(record.value()));
        ArrayNode headers = json.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return json;
    }

    private static byte[] bytes(JsonNode base64) {
        return base64 == null || base64.isNull() ? null : Base64.getDecoder().decode(base64.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
