// Records sent and read by producers and consumers that live as long as a request, and where partitions begin and end.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class Records {
    private static final int LARGEST_BYTES = 16 * 1024 * 1024;

    static ObjectNode produce(JsonNode request) throws Exception {
        int timeoutMs = request.get("timeout_ms").asInt();
        Map<String, Object> settings = Json.settings(request);
        settings.put("acks", request.get("acks").asText());
        settings.put("compression.type", request.get("compression").asText());
        settings.put("enable.idempotence", request.get("idempotence").asBoolean());
        settings.put("max.request.size", LARGEST_BYTES);
        settings.put("buffer.memory", 4L * LARGEST_BYTES);
        settings.put("linger.ms", 20);
        settings.put("delivery.timeout.ms", timeoutMs);
        settings.put("request.timeout.ms", timeoutMs * 3 / 4);
        settings.put("max.block.ms", timeoutMs);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            return send(producer, request.get("topic").asText(), request);
        }
    }

    static ObjectNode send(KafkaProducer<byte[], byte[]> producer, String topic, JsonNode request) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : request.get("records")) {
            sent.add(producer.send(Json.producerRecord(topic, record)));
        }
        ObjectNode answer = Json.JSON.createObjectNode();
        ArrayNode offsets = answer.putArray("offsets");
        for (Future<RecordMetadata> future : sent) {
            offsets.add(future.get(request.get("timeout_ms").asLong() + 1_000, TimeUnit.MILLISECONDS).offset()); // the client gives up first
        }
        return answer;
    }

    static ObjectNode consume(JsonNode request) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            List<TopicPartition> partitions = Json.partitions(request, "partitions");
            consumer.assign(partitions);
            seek(consumer, partitions, request.get("start"));
            ObjectNode answer = Json.JSON.createObjectNode();
            answer.set("records", read(consumer, request, "count"));
            return answer;
        }
    }

    static ObjectNode consumePaused(JsonNode request) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            List<TopicPartition> partitions = Json.partitions(request, "partitions");
            List<TopicPartition> paused = Json.partitions(request, "pause");
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            consumer.pause(paused);
            ObjectNode answer = Json.JSON.createObjectNode();
            answer.set("records", read(consumer, request, "count"));
            consumer.resume(paused);
            answer.set("after", read(consumer, request, "after"));
            return answer;
        }
    }

    private static ArrayNode read(KafkaConsumer<byte[], byte[]> consumer, JsonNode request, String count) {
        ArrayNode records = Json.JSON.createArrayNode();
        long deadline = System.currentTimeMillis() + request.get("timeout_ms").asLong();
        while (records.size() < request.get(count).asInt() && System.currentTimeMillis() < deadline) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                records.add(Json.json(record));
            }
        }
        return records;
    }

    private static void seek(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions, JsonNode start) {
        if (start.has("offset")) {
            partitions.forEach(partition -> consumer.seek(partition, start.get("offset").asLong()));
        } else if (start.has("timestamp")) {
            found(consumer, partitions, start.get("timestamp").asLong()).forEach((partition, offset) -> consumer.seek(partition, offset.offset()));
        } else if (start.has("end")) {
            consumer.seekToEnd(partitions);
        } else {
            consumer.seekToBeginning(partitions);
        }
    }

    static ObjectNode offsets(JsonNode request) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            List<TopicPartition> partitions = Json.partitions(request, "partitions");
            TopicPartition partition = partitions.get(0);
            ObjectNode answer = Json.JSON.createObjectNode();
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

    static ObjectNode listOffsets(JsonNode request) throws Exception {
        long timestamp = request.get("timestamp").asLong();
        OffsetSpec place = timestamp == -2 ? OffsetSpec.earliest() : timestamp == -1 ? OffsetSpec.latest() : OffsetSpec.forTimestamp(timestamp);
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        Json.partitions(request, "partitions").forEach(partition -> wanted.put(partition, place));
        IsolationLevel isolation = IsolationLevel.valueOf(request.path("isolation").asText("read_uncommitted").toUpperCase());
        try (Admin admin = Admin.create(Json.settings(request))) {
            Map<TopicPartition, ListOffsetsResult.ListOffsetsResultInfo> found = admin.listOffsets(wanted, new ListOffsetsOptions(isolation)).all().get();
            ObjectNode answer = Json.JSON.createObjectNode();
            ArrayNode offsets = answer.putArray("offsets");
            for (TopicPartition partition : Json.partitions(request, "partitions")) {
                long offset = found.get(partition).offset();
                offsets.add(offset < 0 ? null : offset);
            }
            return answer;
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode request) {
        Map<String, Object> settings = Json.settings(request);
        settings.put("enable.auto.commit", false);
        settings.put("max.partition.fetch.bytes", LARGEST_BYTES);
        settings.put("default.api.timeout.ms", 15_000);
        settings.put("request.timeout.ms", 15_000);
        settings.put("isolation.level", request.path("isolation").asText("read_uncommitted"));
        if (request.hasNonNull("reset")) {
            settings.put("auto.offset.reset", request.get("reset").asText());
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
