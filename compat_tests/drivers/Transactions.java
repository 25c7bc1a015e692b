// Transactional producers that live from one request to the next, and copies in the way of consume, transform, produce.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class Transactions {
    private static final Duration POLL = Duration.ofMillis(200);

    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    ObjectNode open(JsonNode request) {
        KafkaProducer<byte[], byte[]> producer = producer(request);
        try {
            producer.initTransactions();
        } catch (RuntimeException failure) {
            producer.close(Duration.ZERO);
            throw failure;
        }
        producers.put(request.get("name").asText(), producer);
        return Json.JSON.createObjectNode();
    }

    private static KafkaProducer<byte[], byte[]> producer(JsonNode request) {
        Map<String, Object> settings = Json.settings(request);
        settings.put("transactional.id", request.get("transactional_id").asText());
        settings.put("max.request.size", 16 * 1024 * 1024);
        settings.put("linger.ms", 20);
        settings.putAll(Json.strings(request.get("settings")));
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaProducer<byte[], byte[]> of(JsonNode request) {
        return producers.get(request.get("name").asText());
    }

    ObjectNode begin(JsonNode request) {
        of(request).beginTransaction();
        return Json.JSON.createObjectNode();
    }

    ObjectNode send(JsonNode request) throws Exception {
        return Records.send(of(request), request.get("topic").asText(), request);
    }

    ObjectNode sendOffsets(JsonNode request) {
        String group = request.get("group").asText();
        JsonNode member = request.get("member");
        ConsumerGroupMetadata metadata = member.isNull()
            ? new ConsumerGroupMetadata(group)
            : new ConsumerGroupMetadata(group, member.get("generation").asInt(), member.get("member_id").asText(), Optional.empty());
        of(request).sendOffsetsToTransaction(GroupAdmin.offsets(request.get("offsets")), metadata);
        return Json.JSON.createObjectNode();
    }

    ObjectNode commit(JsonNode request) {
        of(request).commitTransaction();
        return Json.JSON.createObjectNode();
    }

    ObjectNode abort(JsonNode request) {
        of(request).abortTransaction();
        return Json.JSON.createObjectNode();
    }

    ObjectNode drop(JsonNode request) {
        producers.remove(request.get("name").asText()).close(Duration.ZERO);
        return Json.JSON.createObjectNode();
    }

    ObjectNode copy(JsonNode request) throws Exception {
        Map<String, Object> settings = Json.settings(request);
        settings.put("group.id", request.get("group").asText());
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", request.get("per_transaction").asInt());
        int copied = 0;
        int transactions = 0;
        try (KafkaProducer<byte[], byte[]> producer = producer(request);
             KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(request.get("source").asText()));
            while (copied < request.get("count").asInt()) {
                List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
                consumer.poll(POLL).forEach(records::add);
                if (records.isEmpty()) {
                    continue;
                }
                if (++transactions % request.get("abort_every").asInt() == 0) {
                    copy(producer, request.get("target").asText(), records, consumer.groupMetadata());
                    producer.abortTransaction();
                }
                copy(producer, request.get("target").asText(), records, consumer.groupMetadata());
                producer.commitTransaction();
                copied += records.size();
            }
        }
        return Json.JSON.createObjectNode().put("copied", copied).put("transactions", transactions);
    }

    private static void copy(KafkaProducer<byte[], byte[]> producer, String target, List<ConsumerRecord<byte[], byte[]>> records, ConsumerGroupMetadata group) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(target, record.partition(), record.key(), record.value()));
            offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, group);
    }

    /** Fences whoever has this transactional id, as an administrator does. */
    static ObjectNode fence(JsonNode request) throws Exception {
        try (Admin admin = Admin.create(Json.settings(request))) {
            admin.fenceProducers(List.of(request.get("transactional_id").asText())).all().get();
        }
        return Json.JSON.createObjectNode();
    }

    // ---- As Flink does it: what a checkpoint keeps of a transaction is the producer's id and epoch, and after a
    // failure a producer that never began it commits it. The client has no way for that; Flink reaches into it.

    ObjectNode identity(JsonNode request) throws Exception {
        Object idAndEpoch = get(manager(of(request)), "producerIdAndEpoch");
        return Json.JSON.createObjectNode().put("producer_id", (long) get(idAndEpoch, "producerId")).put("epoch", (short) get(idAndEpoch, "epoch"));
    }

    /** Opens a producer that has not asked for an identity, and makes it believe that it is in this transaction. */
    ObjectNode resume(JsonNode request) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(request);
        producers.put(request.get("name").asText(), producer);
        Object manager = manager(producer);
        synchronized (manager) {
            transition(manager, "INITIALIZING");
            call(get(manager, "txnPartitionMap"), "reset");
            Object idAndEpoch = get(manager, "producerIdAndEpoch");
            var constructor = idAndEpoch.getClass().getDeclaredConstructor(long.class, short.class);
            constructor.setAccessible(true);
            set(manager, "producerIdAndEpoch", constructor.newInstance(request.get("producer_id").asLong(), (short) request.get("epoch").asInt()));
            transition(manager, "READY");
            transition(manager, "IN_TRANSACTION");
            set(manager, "transactionStarted", true);
        }
        return Json.JSON.createObjectNode();
    }

    private static Object manager(KafkaProducer<byte[], byte[]> producer) throws Exception {
        return get(producer, "transactionManager");
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void transition(Object manager, String state) throws Exception {
        Class states = Class.forName("org.apache.kafka.clients.producer.internals.TransactionManager$State");
        Method transition = method(manager.getClass(), "transitionTo", 1);
        transition.invoke(manager, Enum.valueOf(states, state));
    }

    private static void call(Object target, String name) throws Exception {
        method(target.getClass(), name, 0).invoke(target);
    }

    private static Method method(Class<?> owner, String name, int parameters) {
        for (Method method : owner.getDeclaredMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == parameters) {
                method.setAccessible(true);
                return method;
            }
        }
        throw new IllegalStateException(owner + " has no " + name);
    }

    private static Object get(Object owner, String name) throws Exception {
        return field(owner, name).get(owner);
    }

    private static void set(Object owner, String name, Object value) throws Exception {
        field(owner, name).set(owner, value);
    }

    private static Field field(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }
}
