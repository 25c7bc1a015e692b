import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Answers questions about Kafka's configuration, one line each; texts travel as hex, null as "-". */
public class ConfigProbe {
    static final Map<String, String> REQUIRED = Map.of(
        "node.id", "1", "process.roles", "broker,controller", "controller.listener.names", "CONTROLLER");

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line; (line = requests.readLine()) != null; ) {
            String[] words = line.split(" ", -1);
            switch (words[0]) {
                case "topic-keys" -> keys(LogConfig.configDefCopy(), answers);
                case "broker-keys" -> keys(KafkaConfig.configDef(), answers);
                case "group-keys" -> keys(GroupConfig.CONFIG_DEF, answers);
                case "dynamic" -> new TreeMap<>(DynamicBrokerConfig.dynamicConfigUpdateModes())
                    .forEach((key, mode) -> answers.println(key + " " + mode));
                case "synonyms" -> new TreeMap<>(ServerTopicConfigSynonyms.TOPIC_CONFIG_SYNONYMS).forEach((key, synonym) ->
                    answers.println(key + " " + String.join(" ", DynamicBrokerConfig.brokerConfigSynonyms(synonym, true))));
                case "topic" -> answers.println(parsed(LogConfig.configDefCopy(), Map.of(), words));
                case "group" -> answers.println(parsed(GroupConfig.CONFIG_DEF, Map.of(), words));
                case "broker" -> answers.println(parsed(KafkaConfig.configDef(), REQUIRED, words));
                case "topic-check" -> answers.println(accepted(() -> LogConfig.validate(pairs(words))));
                case "broker-check" -> answers.println(accepted(() -> new KafkaConfig(withRequired(pairs(words)), false)));
                case "group-check" -> {
                    KafkaConfig config = new KafkaConfig(withRequired(Map.of()), false);
                    answers.println(accepted(() ->
                        GroupConfig.validate(pairs(words), config.groupCoordinatorConfig(), config.shareGroupConfig())));
                }
                case "properties" -> answers.println(properties(text(words[1])));
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    static void keys(ConfigDef definition, PrintStream answers) {
        new TreeMap<>(definition.configKeys()).values().forEach(key -> answers.println(String.join(" ",
            key.name, key.type.name(),
            key.defaultValue == ConfigDef.NO_DEFAULT_VALUE ? "required" : hex(ConfigDef.convertToString(key.defaultValue, key.type)),
            String.valueOf(key.internalConfig))));
    }

    static String parsed(ConfigDef definition, Map<String, String> required, String[] words) {
        String key = words[1];
        Map<String, String> texts = new HashMap<>(required);
        texts.put(key, text(words[2]));
        try {
            return hex(ConfigDef.convertToString(definition.parse(texts).get(key), definition.configKeys().get(key).type));
        } catch (RuntimeException refused) {
            return "refused";
        }
    }

    static String accepted(Runnable check) {
        try {
            check.run();
            return "accepted";
        } catch (RuntimeException refused) {
            return "refused";
        }
    }

    static Map<String, String> pairs(String[] words) {
        Map<String, String> texts = new HashMap<>();
        for (int i = 1; i + 1 < words.length; i += 2) texts.put(words[i], text(words[i + 1]));
        return texts;
    }

    static Map<String, String> withRequired(Map<String, String> texts) {
        Map<String, String> all = new HashMap<>(REQUIRED);
        all.put("controller.quorum.voters", "1@localhost:9093");
        all.put("listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093");
        all.putAll(texts);
        return all;
    }

    static String properties(String text) throws Exception {
        Properties properties = new Properties();
        try {
            properties.load(new StringReader(text));
        } catch (IllegalArgumentException refused) {
            return "refused";
        }
        List<String> entries = properties.stringPropertyNames().stream().sorted()
            .map(key -> hex(key) + "=" + hex(properties.getProperty(key))).collect(Collectors.toList());
        return String.join(" ", entries);
    }

    static String hex(String text) {
        return text == null ? "-" : "x" + HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }

    static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex.substring(1)), StandardCharsets.UTF_8);
    }
}
