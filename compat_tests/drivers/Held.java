// Producers and consumers that live on between two requests: what a restart of the broker must not disturb.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class Held {
    private static final Duration POLL = Duration.ofMillis(100);

    private final Map<String, Pair> pairs = new HashMap<>();

    ObjectNode hold(JsonNode request) {
        pairs.put(request.get("name").asText(), new Pair(request));
        return Json.JSON.createObjectNode();
    }

    ObjectNode send(JsonNode request) throws Exception {
        Pair pair = pairs.get(request.get("name").asText());
        return Records.send(pair.producer, pair.topic, request);
    }

    ObjectNode read(JsonNode request) {
        Pair pair = pairs.get(request.get("name").asText());
        int count = request.get("count").asInt();
        long deadline = System.currentTimeMillis() + request.get("timeout_ms").asLong();
        while (pair.unread.size() < count && System.currentTimeMillis() < deadline) {
            pair.consumer.poll(POLL).forEach(pair.unread::add);
        }
        ObjectNode answer = Json.JSON.createObjectNode();
        ArrayNode records = answer.putArray("records");
        while (records.size() < count && !pair.unread.isEmpty()) {
            records.add(Json.json(pair.unread.remove()));
        }
        return answer;
    }

    ObjectNode drop(JsonNode request) {
        Pair pair = pairs.remove(request.get("name").asText());
        pair.producer.close(Duration.ofSeconds(5));
        pair.consumer.close();
        return Json.JSON.createObjectNode();
    }

    private static final class Pair {
        private final String topic;
        private final KafkaProducer<byte[], byte[]> producer;
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final ArrayDeque<ConsumerRecord<byte[], byte[]>> unread = new ArrayDeque<>(); // one poll may bring more than was asked for

        Pair(JsonNode request) {
            topic = request.get("topic").asText();
            Map<String, Object> settings = Json.settings(request);
            settings.putAll(Json.strings(request.get("settings")));
            producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer()); // idempotent by default
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            consumer.seekToBeginning(consumer.assignment());
        }
    }
}
