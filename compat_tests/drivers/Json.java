// What the requests of the contract say in the Java clients' classes, and back.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

final class Json {
    static final ObjectMapper JSON = new ObjectMapper();

    static Map<String, Object> settings(JsonNode request) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", request.get("bootstrap").asText());
        return settings;
    }

    static List<TopicPartition> partitions(JsonNode request, String which) {
        List<TopicPartition> partitions = new ArrayList<>();
        request.get(which).forEach(partition -> partitions.add(new TopicPartition(request.get("topic").asText(), partition.asInt())));
        return partitions;
    }

    static Map<String, String> strings(JsonNode object) {
        Map<String, String> strings = new HashMap<>();
        object.fieldNames().forEachRemaining(name -> strings.put(name, object.get(name).asText()));
        return strings;
    }

    static ProducerRecord<byte[], byte[]> producerRecord(String topic, JsonNode record) {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : record.path("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        }
        Long timestamp = record.path("timestamp").isNumber() ? record.get("timestamp").asLong() : null;
        return new ProducerRecord<>(topic, record.get("partition").asInt(), timestamp, bytes(record.get("key")), bytes(record.get("value")), headers);
    }

    static ObjectNode json(ConsumerRecord<byte[], byte[]> record) {
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
