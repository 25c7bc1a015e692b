// Members of groups: each is a consumer on a thread of its own, polled until it leaves (members.py says how it commits).

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

final class Members {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final Map<String, Member> members = new ConcurrentHashMap<>();

    ObjectNode join(JsonNode request) {
        Member member = new Member(request);
        members.put(request.get("member").asText(), member);
        member.start();
        return JSON.createObjectNode();
    }

    ObjectNode states(JsonNode request) {
        ObjectNode answer = JSON.createObjectNode();
        ObjectNode states = answer.putObject("states");
        request.get("members").forEach(name -> states.set(name.asText(), members.get(name.asText()).snapshot()));
        return answer;
    }

    ObjectNode leave(JsonNode request) throws Exception {
        Map<String, Member> leaving = new HashMap<>();
        request.get("members").forEach(name -> leaving.put(name.asText(), members.remove(name.asText())));
        leaving.values().forEach(member -> member.leaving = true);
        ObjectNode answer = JSON.createObjectNode();
        ObjectNode states = answer.putObject("states");
        for (Map.Entry<String, Member> left : leaving.entrySet()) {
            left.getValue().join(60_000);
            states.set(left.getKey(), left.getValue().snapshot());
        }
        return answer;
    }

    ObjectNode commit(JsonNode request) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = GroupAdmin.offsets(request.get("offsets"));
        boolean asynchronous = request.get("asynchronous").asBoolean();
        Member member = members.get(request.get("member").asText());
        CompletableFuture<Void> done = new CompletableFuture<>();
        member.ask(() -> {
            if (asynchronous) {
                member.consumer.commitAsync(offsets, (committed, error) -> {
                    if (error == null) done.complete(null);
                    else done.completeExceptionally(error);
                });
            } else {
                member.consumer.commitSync(offsets);
                done.complete(null);
            }
            return null;
        });
        done.get(60, TimeUnit.SECONDS); // the callback of an asynchronous commit runs in a later poll
        return JSON.createObjectNode();
    }

    ObjectNode committed(JsonNode request) throws Exception {
        Member member = members.get(request.get("member").asText());
        List<TopicPartition> partitions = GroupAdmin.partitions(request.get("partitions"));
        Map<TopicPartition, OffsetAndMetadata> found = member.ask(() -> member.consumer.committed(new HashSet<>(partitions)));
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode committed = answer.putArray("committed");
        for (TopicPartition partition : partitions) {
            committed.add(found.get(partition) == null ? null : GroupAdmin.json(found.get(partition)));
        }
        return answer;
    }

    ObjectNode seekToCommitted(JsonNode request) throws Exception {
        Member member = members.get(request.get("member").asText());
        Set<TopicPartition> partitions = new HashSet<>(GroupAdmin.partitions(request.get("partitions")));
        member.ask(() -> {
            member.consumer.committed(partitions).forEach(member.consumer::seek);
            return null;
        });
        return JSON.createObjectNode();
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final JsonNode request;
        private final ConcurrentLinkedQueue<FutureTask<?>> orders = new ConcurrentLinkedQueue<>();
        private final ArrayNode records = JSON.createArrayNode();
        private volatile ObjectNode state = JSON.createObjectNode().putNull("member_id").putNull("generation").set("assignment", JSON.createArrayNode());
        private volatile int revocations;
        private volatile String error;
        private volatile boolean leaving;
        private boolean uncommitted;
        private KafkaConsumer<byte[], byte[]> consumer;

        Member(JsonNode request) {
            this.request = request;
            setDaemon(true);
        }

        @Override
        public void run() {
            try (KafkaConsumer<byte[], byte[]> opened = new KafkaConsumer<>(settings(), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer = opened;
                subscribe();
                while (!leaving) {
                    for (FutureTask<?> order = orders.poll(); order != null; order = orders.poll()) {
                        order.run();
                    }
                    poll();
                }
            } catch (Exception failure) {
                error = failure.getClass().getSimpleName() + ": " + failure.getMessage();
            }
            ObjectNode last = state.deepCopy();
            last.putArray("assignment");
            state = last;
        }

        private Map<String, Object> settings() {
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", request.get("bootstrap").asText());
            settings.put("group.id", request.get("group").asText());
            settings.put("enable.auto.commit", false);
            settings.put("auto.offset.reset", "earliest");
            settings.put("metadata.max.age.ms", 500); // the classic protocol finds new topics by looking for them
            request.get("settings").fields().forEachRemaining(given -> settings.put(given.getKey(), given.getValue().asText()));
            settings.computeIfPresent("partition.assignment.strategy", (key, name) -> ASSIGNORS.get(name));
            return settings;
        }

        private void subscribe() throws Exception {
            if (!request.get("assign").isNull()) {
                consumer.assign(GroupAdmin.partitions(request.get("assign")));
            } else if (!request.get("topics").isNull()) {
                List<String> topics = new ArrayList<>();
                request.get("topics").forEach(topic -> topics.add(topic.asText()));
                consumer.subscribe(topics, this);
            } else if (!request.get("broker_matches").asBoolean()) {
                consumer.subscribe(Pattern.compile(request.get("pattern").asText()), this);
            } else {
                // Only newer clients have the class; it gives the pattern to the broker.
                Class<?> pattern = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
                Object given = pattern.getConstructor(String.class).newInstance(request.get("pattern").asText());
                consumer.getClass().getMethod("subscribe", pattern, ConsumerRebalanceListener.class).invoke(consumer, given, this);
            }
        }

        private void poll() {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                synchronized (records) {
                    records.addArray().add(record.topic()).add(record.partition()).add(record.offset());
                }
                uncommitted = true;
            }
            commitPolled();
            ObjectNode now = JSON.createObjectNode();
            ArrayNode assignment = now.putArray("assignment");
            consumer.assignment().forEach(partition -> assignment.addArray().add(partition.topic()).add(partition.partition()));
            now.put("member_id", consumer.groupMetadata().memberId()).put("generation", consumer.groupMetadata().generationId());
            state = now;
        }

        private void commitPolled() {
            if (!uncommitted || !request.get("commits").asBoolean()) {
                return;
            }
            try {
                consumer.commitSync();
                uncommitted = false;
            } catch (FencedInstanceIdException fenced) {
                throw fenced;
            } catch (RuntimeException refused) {
                System.err.println(request.get("member").asText() + " commits again after " + refused);
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            revocations += revoked.isEmpty() ? 0 : 1;
            commitPolled();
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> lost) {
            revocations += lost.isEmpty() ? 0 : 1;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> assigned) {}

        <T> T ask(Callable<T> order) throws Exception {
            FutureTask<T> task = new FutureTask<>(order);
            orders.add(task);
            return task.get(60, TimeUnit.SECONDS);
        }

        ObjectNode snapshot() {
            ObjectNode snapshot = state.deepCopy();
            synchronized (records) {
                snapshot.set("records", records.deepCopy());
            }
            return snapshot.put("revocations", revocations).put("error", error);
        }
    }
}
