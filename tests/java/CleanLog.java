import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Compacts logs with Kafka's own cleaner. A line of standard input is: directory, where to copy it before the first
 * cleaning, segment bytes, delete.retention.ms, bytes of the key map, and the times of the cleanings. Each begins where
 * the one before it ended, or anew if that was the end. For each line it prints the offsets up to which each came.
 */
public class CleanLog {
    private static final KafkaScheduler SCHEDULER = new KafkaScheduler(1);

    public static void main(String[] arguments) throws Exception {
        SCHEDULER.startup();
        for (String line : new String(System.in.readAllBytes()).split("\n")) {
            String[] fields = line.split(" ");
            LogConfig config = new LogConfig(Map.of(
                "cleanup.policy", "compact",
                "internal.segment.bytes", fields[2],
                "index.interval.bytes", "200",
                "delete.retention.ms", fields[3]));
            open(new File(fields[0]), config, false).close();
            copy(Paths.get(fields[0]), Paths.get(fields[1]));
            UnifiedLog log = open(new File(fields[0]), config, true);
            log.updateHighWatermark(log.logEndOffset());
            StringBuilder ends = new StringBuilder();
            long firstDirtyOffset = log.logStartOffset();
            for (int number = 5; number < fields.length; number++) {
                if (firstDirtyOffset == log.activeSegment().baseOffset())
                    firstDirtyOffset = log.logStartOffset();
                Cleaner cleaner = new Cleaner(
                    0, new SkimpyOffsetMap(Integer.parseInt(fields[4])), 65536, 1 << 20, 0.9,
                    new Throttler(Double.MAX_VALUE, 1000, "throttler", "bytes", Time.SYSTEM), Time.SYSTEM, partition -> { });
                LogToClean toClean = new LogToClean(log, firstDirtyOffset, log.activeSegment().baseOffset(), true);
                firstDirtyOffset = cleaner.doClean(toClean, Long.parseLong(fields[number])).getKey();
                ends.append(firstDirtyOffset).append(' ');
            }
            log.close();
            System.out.println(ends.toString().trim());
        }
        System.exit(0); // files that are to be deleted in a minute stay
    }

    private static UnifiedLog open(File directory, LogConfig config, boolean wasClosedCleanly) throws IOException {
        return UnifiedLog.create(
            directory, config, 0L, 0L, SCHEDULER, new BrokerTopicStats(), Time.SYSTEM, Integer.MAX_VALUE,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Integer.MAX_VALUE, new LogDirFailureChannel(1),
            wasClosedCleanly, Optional.empty());
    }

    private static void copy(Path source, Path target) throws IOException {
        Files.createDirectories(target);
        try (Stream<Path> files = Files.list(source)) {
            for (Path file : (Iterable<Path>) files.filter(each -> !each.toString().endsWith(".tmp"))::iterator)
                Files.copy(file, target.resolve(file.getFileName()));
        }
    }
}
