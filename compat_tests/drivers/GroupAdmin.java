// What the Java admin client does with groups.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

final class GroupAdmin {
    private static final ObjectMapper JSON = new ObjectMapper();

    @SuppressWarnings("deprecation") // what replaces it came after the older of the two clients
    static ObjectNode list(JsonNode request) throws Exception {
        try (Admin admin = admin(request)) {
            ObjectNode answer = JSON.createObjectNode();
            ArrayNode groups = answer.putArray("groups");
            for (ConsumerGroupListing group : admin.listConsumerGroups().all().get()) {
                ObjectNode listed = groups.addObject().put("group", group.groupId());
                group.state().ifPresent(state -> listed.put("state", state.toString()));
                group.type().ifPresent(type -> listed.put("type", type.toString()));
            }
            return answer;
        }
    }

    @SuppressWarnings("deprecation")
    static ObjectNode describe(JsonNode request) throws Exception {
        String group = request.get("group").asText();
        try (Admin admin = admin(request)) {
            ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            ObjectNode answer = JSON.createObjectNode();
            answer.put("state", found.state().toString()).put("type", found.type().toString()).put("assignor", found.partitionAssignor());
            ArrayNode members = answer.putArray("members");
            for (MemberDescription member : found.members()) {
                ObjectNode described = members.addObject().put("member_id", member.consumerId()).put("client_id", member.clientId()).put("host", member.host());
                described.put("group_instance_id", member.groupInstanceId().orElse(null));
                ArrayNode assignment = described.putArray("assignment");
                member.assignment().topicPartitions().forEach(p -> assignment.addArray().add(p.topic()).add(p.partition()));
            }
            return answer;
        }
    }

    static ObjectNode offsets(JsonNode request, String group) throws Exception {
        try (Admin admin = admin(request)) {
            ObjectNode answer = JSON.createObjectNode();
            ArrayNode offsets = answer.putArray("offsets");
            admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((partition, offset) ->
                offsets.add(json(offset).put("topic", partition.topic()).put("partition", partition.partition())));
            return answer;
        }
    }

    static ObjectNode alterOffsets(JsonNode request) throws Exception {
        try (Admin admin = admin(request)) {
            admin.alterConsumerGroupOffsets(request.get("group").asText(), offsets(request.get("offsets"))).all().get();
        }
        return JSON.createObjectNode();
    }

    static ObjectNode deleteOffsets(JsonNode request) throws Exception {
        try (Admin admin = admin(request)) {
            admin.deleteConsumerGroupOffsets(request.get("group").asText(), new HashSet<>(partitions(request.get("partitions")))).all().get();
        }
        return JSON.createObjectNode();
    }

    static ObjectNode delete(JsonNode request) throws Exception {
        try (Admin admin = admin(request)) {
            admin.deleteConsumerGroups(List.of(request.get("group").asText())).all().get();
        }
        return JSON.createObjectNode();
    }

    static ObjectNode removeStaticMember(JsonNode request) throws Exception {
        MemberToRemove member = new MemberToRemove(request.get("group_instance_id").asText());
        try (Admin admin = admin(request)) {
            admin.removeMembersFromConsumerGroup(request.get("group").asText(), new RemoveMembersFromConsumerGroupOptions(List.of(member))).all().get();
        }
        return JSON.createObjectNode();
    }

    // ---- JSON

    static List<TopicPartition> partitions(JsonNode given) {
        List<TopicPartition> partitions = new ArrayList<>();
        given.forEach(partition -> partitions.add(new TopicPartition(partition.get(0).asText(), partition.get(1).asInt())));
        return partitions;
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode given) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode offset : given) {
            int leaderEpoch = offset.get("leader_epoch").asInt();
            Optional<Integer> epoch = leaderEpoch < 0 ? Optional.empty() : Optional.of(leaderEpoch);
            TopicPartition partition = new TopicPartition(offset.get("topic").asText(), offset.get("partition").asInt());
            offsets.put(partition, new OffsetAndMetadata(offset.get("offset").asLong(), epoch, offset.get("metadata").asText()));
        }
        return offsets;
    }

    static ObjectNode json(OffsetAndMetadata offset) {
        return JSON.createObjectNode().put("offset", offset.offset()).put("metadata", offset.metadata()).put("leader_epoch", offset.leaderEpoch().orElse(-1));
    }

    private static Admin admin(JsonNode request) {
        return Admin.create(Map.of("bootstrap.servers", request.get("bootstrap").asText()));
    }
}
