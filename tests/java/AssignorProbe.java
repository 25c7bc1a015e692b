import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Each line in is a group: "assignor homogeneous|heterogeneous topic=count,... member|instance|topic,...|topic:partition,... ...",
 * topics as small numbers, "-" for nothing. Each line out is what each member gets: "member=topic:partition,... ...".
 */
public class AssignorProbe {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) System.out.println(assigned(line.split(" ")));
    }

    static String assigned(String[] words) {
        ConsumerGroupPartitionAssignor assignor = words[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<Uuid, Integer> counts = new HashMap<>();
        for (String topic : list(words[2])) {
            String[] parts = topic.split("=");
            counts.put(id(parts[0]), Integer.parseInt(parts[1]));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (int i = 3; i < words.length; i++) {
            String[] parts = words[i].split("\\|");
            Set<Uuid> topics = list(parts[2]).stream().map(AssignorProbe::id).collect(Collectors.toCollection(LinkedHashSet::new));
            Map<Uuid, Set<Integer>> partitions = new LinkedHashMap<>();
            for (String partition : list(parts[3])) {
                String[] pair = partition.split(":");
                partitions.computeIfAbsent(id(pair[0]), topic -> new TreeSet<>()).add(Integer.parseInt(pair[1]));
                owners.computeIfAbsent(id(pair[0]), topic -> new HashMap<>()).put(Integer.parseInt(pair[1]), parts[0]);
            }
            Optional<String> instance = parts[1].equals("-") ? Optional.empty() : Optional.of(parts[1]);
            members.put(parts[0], new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, topics, new Assignment(Collections.unmodifiableMap(partitions))));
        }
        SubscriptionType type = SubscriptionType.valueOf(words[1].toUpperCase());
        return new TreeMap<>(assignor.assign(new GroupSpecImpl(members, type, owners), describer(counts)).members())
            .entrySet().stream().map(entry -> entry.getKey() + "=" + text(entry.getValue().partitions()))
            .collect(Collectors.joining(" "));
    }

    static SubscribedTopicDescriber describer(Map<Uuid, Integer> counts) {
        return new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) {
                return counts.getOrDefault(topic, -1);
            }

            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
    }

    static String text(Map<Uuid, Set<Integer>> partitions) {
        return new TreeMap<>(partitions).entrySet().stream()
            .flatMap(entry -> new TreeSet<>(entry.getValue()).stream().map(partition ->
                entry.getKey().getLeastSignificantBits() + ":" + partition))
            .collect(Collectors.joining(","));
    }

    static java.util.List<String> list(String text) {
        return text.equals("-") ? java.util.List.of() : java.util.List.of(text.split(","));
    }

    static Uuid id(String topic) {
        return new Uuid(0, Long.parseLong(topic));
    }
}
