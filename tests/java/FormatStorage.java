import kafka.tools.StorageTool;

/** Runs Kafka's storage tool with the words that are the lines of standard input. */
public class FormatStorage {
    public static void main(String[] arguments) throws Exception {
        String[] words = new String(System.in.readAllBytes()).strip().split("\n");
        System.exit(StorageTool.execute(words, System.out));
    }
}
