/* Fetch requests by hand: `readers` connections, each reading all partitions from the start and checking every record.
 *
 * expect=N: each reader must find exactly N records and then the end. milliseconds=N: not longer than that; without
 * expect=N one that comes to the end begins again, because there it would only wait.
 * tail=1 counts latency from a record's stamp to its arrival. group=NAME: reader i commits in group NAME-i after every
 * fetch, and what the group remembers at the end is compared. silence_ms=N: no longer without a record while some are to
 * come; a broker that answers with nothing for ever is not one to wait for. coordinator_ms=N: nor for groups to work. */

#include "wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTITIONS_AT_ONCE 250

struct follower {
    struct ledger ledger;
    int64_t *offsets, *high_watermarks;
    uint32_t from; /* the first partition of the next request */
    bool done;
};

static uint32_t partitions, readers, done, fetch_bytes;
static uint64_t expected, ends, last_record_ns;
static bool *answered; /* the partitions that a reply was about */
static int32_t min_bytes;
static const char *topic, *group;
static struct follower *followers;
static struct samples latencies;
static bool tails, asks_again;
static int16_t group_error;

static bool has_more(const struct follower *follower, uint32_t partition) {
    return follower->high_watermarks[partition] < 0 || follower->offsets[partition] < follower->high_watermarks[partition];
}

static bool at_end(const struct follower *follower) {
    for (uint32_t partition = 0; partition < partitions; partition++)
        if (has_more(follower, partition))
            return false;
    return true;
}

static bool finished(const struct follower *follower) {
    if (ends && now_ns() > ends)
        return true;
    return expected && at_end(follower) && (!tails || follower->ledger.records >= expected);
}

static void begin_again(struct follower *follower) {
    memset(follower->offsets, 0, partitions * sizeof *follower->offsets);
    memset(follower->ledger.next, 0, follower->ledger.streams * sizeof *follower->ledger.next);
}

static uint32_t chosen(const struct follower *follower, uint32_t *found) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < partitions && count < PARTITIONS_AT_ONCE; i++) {
        uint32_t partition = (follower->from + i) % partitions;
        if (tails || has_more(follower, partition))
            found[count++] = partition;
    }
    return count;
}

static void fetch_send(struct connection *connection) {
    struct follower *follower = connection->owner;
    uint32_t found[PARTITIONS_AT_ONCE], count = chosen(follower, found);
    struct buffer *out = request_begin(connection, FETCH, 11, now_ns(), 0);
    put_i32(out, -1);
    put_i32(out, 500);
    put_i32(out, min_bytes);
    put_i32(out, 50 << 20);
    put_i8(out, 0);
    put_i32(out, 0);
    put_i32(out, -1);
    put_i32(out, 1);
    put_string(out, topic);
    put_i32(out, (int32_t)count);
    for (uint32_t i = 0; i < count; i++) {
        put_i32(out, (int32_t)found[i]);
        put_i32(out, -1);
        put_i64(out, follower->offsets[found[i]]);
        put_i64(out, -1);
        put_i32(out, (int32_t)fetch_bytes);
    }
    put_i32(out, 0);
    put_string(out, "");
    request_finish(connection);
    follower->from = count ? (found[count - 1] + 1) % partitions : 0;
}

static void batch_check(struct follower *follower, uint32_t partition, struct reader batch, uint64_t now) {
    char where[40];
    int64_t base = get_i64(&batch);
    (void)get_i32(&batch), (void)get_i32(&batch);
    uint8_t magic = *get_slice(&batch, 1).at;
    uint32_t crc = (uint32_t)get_i32(&batch);
    if (magic != 2 || crc != crc32c(batch.at, (size_t)(batch.end - batch.at)))
        fail("partition %u offset %" PRId64 ": a batch with a wrong CRC", partition, base);
    if (base != follower->offsets[partition])
        fail("partition %u: the batch at offset %" PRId64 " came where %" PRId64 " was due: %s", partition, base,
             follower->offsets[partition], base < follower->offsets[partition] ? "repeated" : "something is missing");
    (void)get_slice(&batch, 36);
    int32_t count = get_i32(&batch);
    snprintf(where, sizeof where, "partition %u", partition);
    for (int32_t i = 0; i < count; i++) {
        struct reader record = get_slice(&batch, (size_t)get_varint(&batch));
        (void)get_slice(&record, 1), (void)get_varint(&record);
        int64_t offset = base + get_varint(&record);
        (void)get_varint(&record); /* no key */
        struct reader value = get_slice(&record, (size_t)get_varint(&record));
        const struct stamp *stamp = ledger_check(&follower->ledger, value.at, (size_t)(value.end - value.at), where, offset);
        if (tails)
            samples_add(&latencies, now - stamp->sent_ns);
    }
    follower->offsets[partition] = base + count;
    last_record_ns = now;
}

static void records_check(struct follower *follower, uint32_t partition, struct reader records, uint64_t now) {
    while (records.end - records.at >= 12) {
        struct reader peek = records;
        (void)get_i64(&peek);
        size_t bytes = (size_t)get_i32(&peek) + 12;
        if ((size_t)(records.end - records.at) < bytes)
            break; /* the last batch may be cut at the limit */
        batch_check(follower, partition, get_slice(&records, bytes), now);
    }
}

static void fetch_came(struct follower *follower, struct reader reply) {
    uint64_t now = now_ns();
    (void)get_i32(&reply);
    int16_t error = get_i16(&reply);
    (void)get_i32(&reply);
    int32_t topics = get_i32(&reply);
    for (int32_t i = 0; i < topics && !error; i++) {
        (void)get_string(&reply);
        for (int32_t left = get_i32(&reply); left > 0; left--) {
            uint32_t partition = (uint32_t)get_i32(&reply);
            if (partition >= partitions)
                fail("a fetch was answered about partition %u, which nobody asked for", partition);
            if ((error = get_i16(&reply)))
                break;
            follower->high_watermarks[partition] = get_i64(&reply);
            (void)get_slice(&reply, 16);
            int32_t aborted = get_i32(&reply);
            (void)get_slice(&reply, aborted > 0 ? (size_t)aborted * 16 : 0);
            (void)get_i32(&reply);
            int32_t bytes = get_i32(&reply);
            records_check(follower, partition, get_slice(&reply, bytes > 0 ? (size_t)bytes : 0), now);
        }
    }
    if (error)
        fail("a fetch was refused with error %d", error);
}

static const char *group_of(const struct connection *connection) {
    static char name[100];
    snprintf(name, sizeof name, "%s-%u", group, connection->index);
    return name;
}

static void commit_send(struct connection *connection) {
    struct follower *follower = connection->owner;
    struct buffer *out = request_begin(connection, OFFSET_COMMIT, 5, now_ns(), 0);
    put_string(out, group_of(connection));
    put_i32(out, -1);
    put_string(out, "");
    put_i32(out, 1);
    put_string(out, topic);
    put_i32(out, (int32_t)partitions);
    for (uint32_t partition = 0; partition < partitions; partition++) {
        put_i32(out, (int32_t)partition);
        put_i64(out, follower->offsets[partition]);
        put_string(out, NULL);
    }
    request_finish(connection);
}

/* The next of a reply about groups, which has every partition of the only topic once. */
static uint32_t partition_answered(struct reader *reply) {
    uint32_t partition = (uint32_t)get_i32(reply);
    if (partition >= partitions || answered[partition])
        fail("a reply about groups has partition %u twice, or nobody asked for it", partition);
    answered[partition] = true;
    return partition;
}

static void partitions_begin(struct reader *reply) {
    int32_t topics = get_i32(reply), count = 0;
    if (topics == 1) {
        (void)get_string(reply);
        count = get_i32(reply);
    }
    if ((uint32_t)count != partitions)
        fail("a reply about groups has %d of %u partitions", count, partitions);
    memset(answered, 0, partitions * sizeof *answered);
}

static void commit_came(struct reader reply) {
    (void)get_i32(&reply);
    partitions_begin(&reply);
    group_error = 0;
    for (uint32_t i = 0; i < partitions; i++) {
        (void)partition_answered(&reply);
        int16_t error = get_i16(&reply);
        if (error && !asks_again)
            fail("a commit was refused with error %d", error);
        group_error = error ? error : group_error;
    }
}

static void committed_send(struct connection *connection) {
    struct buffer *out = request_begin(connection, OFFSET_FETCH, 1, now_ns(), 0);
    put_string(out, group_of(connection));
    put_i32(out, 1);
    put_string(out, topic);
    put_i32(out, (int32_t)partitions);
    for (uint32_t partition = 0; partition < partitions; partition++)
        put_i32(out, (int32_t)partition);
    request_finish(connection);
}

static void committed_came(struct follower *follower, struct reader reply) {
    partitions_begin(&reply);
    for (uint32_t i = 0; i < partitions; i++) {
        uint32_t partition = partition_answered(&reply);
        int64_t offset = get_i64(&reply);
        (void)get_string(&reply);
        int16_t error = get_i16(&reply);
        if (error || offset != follower->offsets[partition])
            fail("partition %u: committed %" PRId64 ", which is not what was committed (error %d)", partition, offset, error);
    }
}

static void reply_came(struct connection *connection, const struct request *request, struct reader reply) {
    struct follower *follower = connection->owner;
    switch (request->api) {
    case FETCH:
        fetch_came(follower, reply);
        if (group)
            commit_send(connection);
        if (finished(follower)) {
            done++;
            break;
        }
        if (!expected && at_end(follower))
            begin_again(follower);
        fetch_send(connection);
        break;
    case OFFSET_COMMIT:
        commit_came(reply);
        break;
    case OFFSET_FETCH:
        committed_came(follower, reply);
        break;
    case FIND_COORDINATOR:
        (void)get_i32(&reply);
        group_error = get_i16(&reply);
        break;
    default:
        break;
    }
}

/* The first question about groups may come before their topic is there; then it is asked again. */
static void coordinator_wait(struct connection *connection) {
    uint64_t deadline = now_ns() + (uint64_t)number_option("coordinator_ms", 60000) * 1000000u;
    asks_again = true;
    do {
        if (now_ns() > deadline)
            fail("no coordinator for %s: error %d", group_of(connection), group_error);
        struct buffer *out = request_begin(connection, FIND_COORDINATOR, 1, now_ns(), 0);
        put_string(out, group_of(connection));
        put_i8(out, 0);
        request_finish(connection);
        network_call(connection);
        if (!group_error) {
            commit_send(connection);
            network_call(connection);
        }
        if (group_error)
            network_wait(now_ns() + 10000000u);
    } while (group_error);
    asks_again = false;
}

/* Of one that follows others nobody knows when the first record is due; from then on they come. */
static void silence_check(uint64_t silence_ns) {
    uint64_t records = 0;
    if (!expected || now_ns() < last_record_ns + silence_ns)
        return;
    for (uint32_t i = 0; i < readers; i++)
        records += followers[i].ledger.records;
    if (records || !tails)
        fail("no record for %u ms: %" PRIu64 " came back of %" PRIu64 " that were acknowledged",
             (unsigned)(silence_ns / 1000000u), records, expected * readers);
}

void run_read(void) {
    topic = text_option("topic", NULL);
    group = text_option("group", "");
    group = *group ? group : NULL;
    partitions = (uint32_t)number_option("partitions", 1);
    readers = (uint32_t)number_option("readers", 1);
    fetch_bytes = (uint32_t)number_option("fetch_bytes", 1 << 20);
    min_bytes = (int32_t)number_option("min_bytes", 1);
    expected = (uint64_t)number_option("expect", 0);
    tails = number_option("tail", 0);
    uint64_t streams = (uint64_t)number_option("streams", -1), milliseconds = (uint64_t)number_option("milliseconds", 0);
    uint64_t silence_ns = (uint64_t)number_option("silence_ms", 20000) * 1000000u;
    if (!expected && !milliseconds)
        fail("neither expect=… nor milliseconds=… is given: this would never end");
    latencies = samples_new(tails ? expected * readers : 0);
    answered = calloc(partitions, sizeof *answered);
    followers = calloc(readers, sizeof *followers);
    struct connection *connections = network_open(readers, reply_came);
    for (uint32_t i = 0; i < readers; i++) {
        followers[i].ledger = ledger_new(streams);
        followers[i].offsets = calloc(partitions, sizeof(int64_t));
        followers[i].high_watermarks = malloc(partitions * sizeof(int64_t));
        memset(followers[i].high_watermarks, -1, partitions * sizeof(int64_t));
        connections[i].owner = &followers[i];
        if (group)
            coordinator_wait(&connections[i]);
    }
    ready();

    uint64_t started = now_ns(), records = 0, bytes = 0;
    ends = milliseconds ? started + milliseconds * 1000000u : 0;
    last_record_ns = started;
    for (uint32_t i = 0; i < readers; i++) {
        fetch_send(&connections[i]);
        network_flush(&connections[i]);
    }
    while (done < readers) {
        network_wait(now_ns() + 100000000u);
        silence_check(silence_ns);
    }
    uint64_t elapsed = now_ns() - started;
    for (uint32_t i = 0; i < readers; i++) {
        if (group) {
            committed_send(&connections[i]);
            network_call(&connections[i]);
        }
        if (expected && followers[i].ledger.records != expected)
            fail("%" PRIu64 " records came back of %" PRIu64 " that were acknowledged", followers[i].ledger.records, expected);
        records += followers[i].ledger.records;
        bytes += followers[i].ledger.bytes;
    }
    putchar('{');
    client_cpu_print();
    printf("\"records\": %" PRIu64 ", \"bytes\": %" PRIu64 ", ", records, bytes);
    if (tails)
        samples_print("latency", &latencies);
    printf("\"seconds\": %.6f}\n", (double)elapsed / 1e9);
}

static void hold_reply(struct connection *connection, const struct request *request, struct reader reply) {
    (void)connection, (void)request;
    if (get_i16(&reply))
        fail("ApiVersions was refused");
}

/* Connections that were used once and then do nothing, until the harness says that it has looked. */
void run_hold(void) {
    uint32_t count = (uint32_t)number_option("connections", -1);
    struct connection *connections = network_open(count, hold_reply);
    for (uint32_t i = 0; i < count; i++) {
        (void)request_begin(&connections[i], API_VERSIONS, 0, now_ns(), 0);
        request_finish(&connections[i]);
        network_call(&connections[i]);
    }
    ready();
    printf("{\"connections\": %u}\n", count);
}
