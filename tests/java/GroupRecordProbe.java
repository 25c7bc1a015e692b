import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.OffsetAndMetadata;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.classic.ClassicGroupState;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.ResolvedRegularExpression;

/**
 * Prints records as Kafka's coordinator makes them, and then an empty line. After that each line in is a record, and
 * each line out is that record as Kafka writes it again. A record is "key value", both in hex; a tombstone's value is "-".
 */
public class GroupRecordProbe {
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();
    private static final Uuid TOPIC_ID = new Uuid(7, 9);

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (CoordinatorRecord record : made())
            out.println(written(record));
        out.println();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ");
            out.println(written(SERDE.deserialize(bytes(parts[0]), parts[1].equals("-") ? null : bytes(parts[1]))));
        }
        out.flush();
    }

    private static List<CoordinatorRecord> made() {
        ClassicGroup group = new ClassicGroup(new LogContext(), "group", ClassicGroupState.EMPTY, Time.SYSTEM);
        ConsumerGroupMember member = new ConsumerGroupMember.Builder("member")
            .setClientId("client").setClientHost("/127.0.0.1").setSubscribedTopicNames(List.of("orders")).setMemberEpoch(2)
            .setAssignedPartitions(Map.of(TOPIC_ID, Map.of(0, 1, 1, 2))).build();
        return List.of(
            GroupCoordinatorRecordHelpers.newOffsetCommitRecord("group", "orders", 1, offset(OptionalLong.empty(), TOPIC_ID)),
            GroupCoordinatorRecordHelpers.newOffsetCommitRecord("group", "orders", 1, offset(OptionalLong.empty(), Uuid.ZERO_UUID)),
            GroupCoordinatorRecordHelpers.newOffsetCommitRecord("group", "orders", 1, offset(OptionalLong.of(9), TOPIC_ID)),
            GroupCoordinatorRecordHelpers.newOffsetCommitTombstoneRecord("group", "orders", 1),
            GroupCoordinatorRecordHelpers.newEmptyGroupMetadataRecord(group),
            GroupCoordinatorRecordHelpers.newGroupMetadataTombstoneRecord("group"),
            GroupCoordinatorRecordHelpers.newConsumerGroupEpochRecord("group", 3, 4),
            GroupCoordinatorRecordHelpers.newConsumerGroupSubscriptionMetadataTombstoneRecord("group"),
            GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionRecord("group", member),
            GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentMetadataRecord("group", 3, 5),
            GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentRecord("group", "member", Map.of(TOPIC_ID, Set.of(0))),
            GroupCoordinatorRecordHelpers.newConsumerGroupCurrentAssignmentRecord("group", member),
            GroupCoordinatorRecordHelpers.newConsumerGroupRegularExpressionRecord(
                "group", "ord.*", new ResolvedRegularExpression(Set.of("orders"), 6, 7))
        );
    }

    private static OffsetAndMetadata offset(OptionalLong expireTimestampMs, Uuid topicId) {
        return new OffsetAndMetadata(100, OptionalInt.of(2), "metadata", 8, expireTimestampMs, topicId);
    }

    private static ByteBuffer bytes(String hex) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(hex));
    }

    private static String written(CoordinatorRecord record) {
        byte[] value = SERDE.serializeValue(record);
        return HexFormat.of().formatHex(SERDE.serializeKey(record)) + " " + (value == null ? "-" : HexFormat.of().formatHex(value));
    }
}
