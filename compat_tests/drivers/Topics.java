// Topics, their configuration and the cluster, as the Java admin client sees them.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

final class Topics {
    static ObjectNode describeCluster(JsonNode request) throws Exception {
        try (Admin admin = Admin.create(Json.settings(request))) {
            DescribeClusterResult found = admin.describeCluster();
            ObjectNode answer = Json.JSON.createObjectNode();
            answer.put("cluster_id", found.clusterId().get()).put("controller", found.controller().get().id());
            ArrayNode brokers = answer.putArray("brokers");
            for (Node node : found.nodes().get()) {
                brokers.addArray().add(node.id()).add(node.host()).add(node.port());
            }
            return answer;
        }
    }

    static ObjectNode createTopic(JsonNode request) throws Exception {
        NewTopic topic = new NewTopic(request.get("topic").asText(), Optional.of(request.get("partitions").asInt()), Optional.empty());
        topic.configs(Json.strings(request.get("configs")));
        try (Admin admin = Admin.create(Json.settings(request))) {
            admin.createTopics(List.of(topic)).all().get();
        }
        return Json.JSON.createObjectNode();
    }

    static ObjectNode listTopics(JsonNode request) throws Exception {
        try (Admin admin = Admin.create(Json.settings(request))) {
            ObjectNode answer = Json.JSON.createObjectNode();
            ArrayNode topics = answer.putArray("topics");
            admin.listTopics().names().get().forEach(topics::add);
            return answer;
        }
    }

    static ObjectNode describeTopic(JsonNode request) throws Exception {
        String topic = request.get("topic").asText();
        try (Admin admin = Admin.create(Json.settings(request))) {
            int partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            return Json.JSON.createObjectNode().put("partitions", partitions);
        }
    }

    static ObjectNode topicConfigs(JsonNode request) throws Exception {
        ConfigResource topic = resource(request);
        try (Admin admin = Admin.create(Json.settings(request))) {
            ObjectNode answer = Json.JSON.createObjectNode();
            ObjectNode configs = answer.putObject("configs");
            for (ConfigEntry entry : admin.describeConfigs(List.of(topic)).all().get().get(topic).entries()) {
                configs.put(entry.name(), entry.value());
            }
            return answer;
        }
    }

    static ObjectNode alterTopicConfigs(JsonNode request) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        Json.strings(request.get("configs")).forEach((key, value) -> changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
        try (Admin admin = Admin.create(Json.settings(request))) {
            admin.incrementalAlterConfigs(Map.of(resource(request), changes)).all().get();
        }
        return Json.JSON.createObjectNode();
    }

    static ObjectNode createPartitions(JsonNode request) throws Exception {
        try (Admin admin = Admin.create(Json.settings(request))) {
            admin.createPartitions(Map.of(request.get("topic").asText(), NewPartitions.increaseTo(request.get("partitions").asInt()))).all().get();
        }
        return Json.JSON.createObjectNode();
    }

    static ObjectNode deleteRecords(JsonNode request) throws Exception {
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
        try (Admin admin = Admin.create(Json.settings(request))) {
            RecordsToDelete before = RecordsToDelete.beforeOffset(request.get("before").asLong());
            long low = admin.deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition).get().lowWatermark();
            return Json.JSON.createObjectNode().put("low_watermark", low);
        }
    }

    static ObjectNode deleteTopic(JsonNode request) throws Exception {
        try (Admin admin = Admin.create(Json.settings(request))) {
            admin.deleteTopics(List.of(request.get("topic").asText())).all().get();
        }
        return Json.JSON.createObjectNode();
    }

    private static ConfigResource resource(JsonNode request) {
        return new ConfigResource(ConfigResource.Type.TOPIC, request.get("topic").asText());
    }
}
