import org.apache.kafka.tools.DumpLogSegments;

/** Dumps the metadata logs and snapshots whose paths are the lines of standard input; complaints go to standard output too. */
public class DumpMetadata {
    public static void main(String[] arguments) throws Exception {
        System.setErr(System.out);
        String paths = String.join(",", new String(System.in.readAllBytes()).split("\n"));
        DumpLogSegments.main(new String[] {
            "--cluster-metadata-decoder", "--deep-iteration", "--files", paths,
        });
    }
}
