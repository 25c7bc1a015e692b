/* Produce requests of one batch each: as many in flight as asked for, or at a fixed rate whatever the broker does.
 *
 * in_flight=N keeps N requests under way over all connections: where there are more connections than that, each next
 * request goes to the next connection. rate=N sends the i-th request i/N seconds after the start and counts its latency from
 * then, so that a broker that stalls is charged for every request that had to wait, not for one. stop_on_line=1 ends that
 * with the next line on stdin. */

#include "wire.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct connection *connections;
static uint32_t connection_count, partitions, records, record_bytes, next_connection;
static uint64_t *sequences, *turns, requests, unmeasured_records, sent, replied, rate, started, ends;
static int64_t *last_offset;
static int16_t acks;
static bool rotates, stops_on_line;
static const char *topic;
static struct samples latencies, lateness;

/* Connection c of n writes to partitions c, c + n, c + 2n … in turn; so each partition has few writers, and all are used. */
static void request_send(struct connection *connection, uint64_t due_ns) {
    uint32_t index = connection->index;
    uint32_t partition = (uint32_t)((index + turns[index]++ * connection_count) % partitions);
    uint32_t stream = index * partitions + partition;
    struct buffer *out = request_begin(connection, PRODUCE, 7, due_ns, stream);
    put_string(out, NULL);
    put_i16(out, acks);
    put_i32(out, 30000);
    put_i32(out, 1);
    put_string(out, topic);
    put_i32(out, 1);
    put_i32(out, (int32_t)partition);
    size_t length_at = out->used;
    put_i32(out, 0);
    put_batch(out, records, record_bytes, stream, sequences[stream], due_ns);
    sequences[stream] += records;
    uint32_t bytes = __builtin_bswap32((uint32_t)(out->used - length_at - 4));
    *(uint32_t __attribute__((aligned(1))) *)(out->data + length_at) = bytes;
    request_finish(connection);
    sent++;
}

static void reply_came(struct connection *connection, const struct request *request, struct reader reply) {
    uint64_t now = now_ns();
    (void)get_i32(&reply), (void)get_string(&reply), (void)get_i32(&reply);
    int32_t partition = get_i32(&reply);
    int16_t error = get_i16(&reply);
    int64_t offset = get_i64(&reply);
    if (error)
        fail("partition %d refused a batch with error %d", partition, error);
    if ((uint32_t)partition != request->tag % partitions)
        fail("a reply about partition %d to a request for another", partition);
    if (offset <= last_offset[request->tag])
        fail("partition %d: offset %" PRId64 " was acknowledged after %" PRId64, partition, offset, last_offset[request->tag]);
    last_offset[request->tag] = offset;
    samples_add(&latencies, now - request->due_ns);
    replied++;
    if (!rate && sent < requests && now < ends) {
        struct connection *next = rotates ? &connections[next_connection++ % connection_count] : connection;
        request_send(next, now);
        if (next != connection)
            network_flush(next); /* its own is flushed when all replies of this read were seen */
    }
}

static void send_on_time(void) {
    for (uint64_t i = 0; i < requests; i++) {
        uint64_t due = started + i * 1000000000u / rate;
        while (now_ns() < due)
            network_wait(due);
        struct connection *connection = &connections[i % connection_count];
        samples_add(&lateness, now_ns() - due);
        request_send(connection, due);
        network_flush(connection);
        if (i % 16 == 0)
            network_wait(0);
        char line;
        if (stops_on_line && i % 16 == 0 && read(STDIN_FILENO, &line, 1) >= 0)
            break;
    }
}

static void send_and_wait(uint32_t in_flight) {
    for (uint32_t i = 0; i < in_flight && sent < requests; i++) {
        struct connection *connection = &connections[next_connection++ % connection_count];
        request_send(connection, now_ns());
        network_flush(connection);
    }
    while (replied < sent)
        network_wait(now_ns() + 100000000u);
}

/* So that what the first request to a partition costs is not in the cost of all others. */
static void send_unmeasured(uint64_t count) {
    uint64_t wanted = requests;
    requests = count;
    ends = UINT64_MAX;
    send_and_wait(connection_count);
    unmeasured_records = replied * records;
    requests = wanted;
    sent = replied = latencies.count = 0;
}

void run_produce(void) {
    topic = text_option("topic", NULL);
    connection_count = (uint32_t)number_option("connections", 1);
    partitions = (uint32_t)number_option("partitions", 1);
    records = (uint32_t)number_option("records", 1);
    record_bytes = (uint32_t)number_option("record_bytes", 100);
    acks = (int16_t)(strcmp(text_option("acks", "1"), "all") ? 1 : -1);
    rate = (uint64_t)number_option("rate", 0);
    requests = (uint64_t)number_option("requests", 100000000);
    uint64_t milliseconds = (uint64_t)number_option("milliseconds", 0);
    if (rate)
        requests = rate * milliseconds / 1000;
    uint32_t in_flight = (uint32_t)number_option("in_flight", connection_count);
    stops_on_line = number_option("stop_on_line", 0);
    rotates = in_flight < connection_count;
    sequences = calloc((size_t)connection_count * partitions, sizeof *sequences);
    last_offset = malloc((size_t)connection_count * partitions * sizeof *last_offset);
    for (size_t i = 0; i < (size_t)connection_count * partitions; i++)
        last_offset[i] = -1;
    turns = calloc(connection_count, sizeof *turns);
    latencies = samples_new(requests < 20000000 ? requests : 20000000);
    lateness = samples_new(rate ? requests : 0);
    connections = network_open(connection_count, reply_came);
    send_unmeasured((uint64_t)number_option("before", 0));
    ready();
    if (stops_on_line)
        fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);

    started = now_ns();
    ends = milliseconds ? started + milliseconds * 1000000u : UINT64_MAX;
    if (rate)
        send_on_time();
    send_and_wait(rate ? 0 : in_flight);
    uint64_t elapsed = now_ns() - started;
    putchar('{');
    client_cpu_print();
    printf("\"requests\": %" PRIu64 ", \"records\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"seconds\": %.6f, ", replied,
           replied * records + unmeasured_records, replied * records * record_bytes, (double)elapsed / 1e9);
    if (rate)
        samples_print("late", &lateness);
    samples_print("latency", &latencies);
    printf("\"streams\": %" PRIu64 "}\n", (uint64_t)connection_count * partitions);
}
