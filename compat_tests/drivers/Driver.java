// The Java clients behind the drivers' contract (see harness.py): a request per line in, an answer per line out, JSON.
// One source for every version of the client: the class path decides which one runs.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutionException;

public final class Driver {
    private static final Members MEMBERS = new Members();
    private static final Held HELD = new Held();
    private static final Transactions TRANSACTIONS = new Transactions();

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever a library prints must not get between the answers
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.write(Json.JSON.writeValueAsBytes(answer(Json.JSON.readTree(line))));
            answers.write('\n');
            answers.flush();
        }
    }

    private static ObjectNode answer(JsonNode request) {
        try {
            return perform(request);
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            return Json.JSON.createObjectNode().put("error", cause.getClass().getSimpleName()).put("message", String.valueOf(cause.getMessage()));
        }
    }

    /** Only the client that came with Kafka's tools is compiled with that class. */
    private static ObjectNode runTool(JsonNode request) throws Exception {
        return (ObjectNode) Class.forName("Tools").getDeclaredMethod("run", JsonNode.class).invoke(null, request);
    }

    private static ObjectNode perform(JsonNode request) throws Exception {
        switch (request.get("op").asText()) {
            case "produce": return Records.produce(request);
            case "consume": return Records.consume(request);
            case "consume_paused": return Records.consumePaused(request);
            case "offsets": return Records.offsets(request);
            case "list_offsets": return Records.listOffsets(request);
            case "hold": return HELD.hold(request);
            case "held_send": return HELD.send(request);
            case "held_read": return HELD.read(request);
            case "drop": return HELD.drop(request);
            case "open_transactional": return TRANSACTIONS.open(request);
            case "begin_transaction": return TRANSACTIONS.begin(request);
            case "transactional_send": return TRANSACTIONS.send(request);
            case "send_offsets": return TRANSACTIONS.sendOffsets(request);
            case "commit_transaction": return TRANSACTIONS.commit(request);
            case "abort_transaction": return TRANSACTIONS.abort(request);
            case "drop_transactional": return TRANSACTIONS.drop(request);
            case "copy": return TRANSACTIONS.copy(request);
            case "transactional_identity": return TRANSACTIONS.identity(request);
            case "resume_transaction": return TRANSACTIONS.resume(request);
            case "fence_producer": return Transactions.fence(request);
            case "describe_cluster": return Topics.describeCluster(request);
            case "create_topic": return Topics.createTopic(request);
            case "list_topics": return Topics.listTopics(request);
            case "describe_topic": return Topics.describeTopic(request);
            case "topic_configs": return Topics.topicConfigs(request);
            case "alter_topic_configs": return Topics.alterTopicConfigs(request);
            case "create_partitions": return Topics.createPartitions(request);
            case "delete_records": return Topics.deleteRecords(request);
            case "delete_topic": return Topics.deleteTopic(request);
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
            case "tool": return runTool(request);
            default: throw new IllegalArgumentException("unknown op " + request.get("op"));
        }
    }
}
