/* Produce and consume through librdkafka, as most programs outside Java do: one client, its defaults where not said. */

#include "load.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char reason[300];
    if (rd_kafka_conf_set(conf, key, value, reason, sizeof reason) != RD_KAFKA_CONF_OK)
        fail("librdkafka: %s", reason);
}

static rd_kafka_t *client_new(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    char reason[300];
    set(conf, "bootstrap.servers", text_option("address", NULL));
    rd_kafka_t *client = rd_kafka_new(type, conf, reason, sizeof reason);
    if (!client)
        fail("librdkafka: %s", reason);
    return client;
}

/* Connected, and the topic known, before the clock runs. */
static void wait_for_topic(rd_kafka_t *client, rd_kafka_topic_t *topic) {
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, topic, &metadata, 30000);
    if (error)
        fail("no metadata: %s", rd_kafka_err2str(error));
    rd_kafka_metadata_destroy(metadata);
}

static uint64_t acknowledged;
static int64_t *next_offset;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err)
        fail("a record was not delivered: %s", rd_kafka_err2str(message->err));
    if (message->offset != next_offset[message->partition]++)
        fail("partition %d: acknowledged as offset %" PRId64 " what must be %" PRId64, message->partition, message->offset,
             next_offset[message->partition] - 1);
    acknowledged++;
}

static void records_send(rd_kafka_t *client, rd_kafka_topic_t *topic, uint64_t first, uint64_t count, uint32_t bytes,
                         uint32_t partitions) {
    static uint8_t value[2 << 20];
    uint64_t started = now_ns();
    for (uint64_t i = first; i < first + count; i++) {
        uint32_t partition = (uint32_t)(i % partitions);
        value_fill(value, bytes, partition, i / partitions, 0);
        while (rd_kafka_produce(topic, (int32_t)partition, RD_KAFKA_MSG_F_COPY, value, bytes, NULL, 0, NULL)) {
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                fail("librdkafka: %s", rd_kafka_err2str(rd_kafka_last_error()));
            rd_kafka_poll(client, 20);
        }
        if (i % 64 == 0)
            rd_kafka_poll(client, 0);
    }
    while (acknowledged < first + count && now_ns() - started < 300000000000u)
        rd_kafka_poll(client, 20);
    if (acknowledged != first + count)
        fail("%" PRIu64 " of %" PRIu64 " records were acknowledged", acknowledged, first + count);
}

/* Some batches of each partition go before, as the first ones make what later ones find: files, and with Apache Kafka the
 * first touch of two mapped index files, which costs more than many batches and comes with the first one after
 * index.interval.bytes (4 KB) were written. So three rounds of more than that, each a batch of its own, whatever a codec
 * leaves of it. Where few records were asked for, most of them are left to be measured. */
#define ROUNDS_BEFORE 3
#define ROUND_BYTES_PLAIN 4500
#define ROUND_BYTES_COMPRESSED 32000

static uint64_t records_send_before(rd_kafka_t *client, rd_kafka_topic_t *topic, uint64_t records, uint32_t bytes,
                                    uint32_t partitions) {
    bool plain = !strcmp(text_option("compression", "none"), "none");
    uint64_t round = (plain ? ROUND_BYTES_PLAIN : ROUND_BYTES_COMPRESSED) / bytes + 1, each = ROUNDS_BEFORE * round;
    if (each > records / 3 / partitions)
        each = records / 3 / partitions ? records / 3 / partitions : 1;
    for (uint64_t sent = 0; sent < each; sent += round)
        records_send(client, topic, sent * partitions, (each - sent < round ? each - sent : round) * partitions, bytes,
                     partitions);
    return each * partitions;
}

/* For readers that are not of this program: the sum of the CRC-32 of every value. */
static uint64_t checksum(uint64_t records, uint32_t bytes, uint32_t partitions) {
    static uint8_t value[2 << 20];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < records; i++) {
        value_fill(value, bytes, (uint32_t)(i % partitions), i / partitions, 0);
        sum += crc32(value, bytes);
    }
    return sum;
}

void run_produce_bulk(void) {
    uint64_t records = (uint64_t)number_option("records", -1);
    uint32_t bytes = (uint32_t)number_option("record_bytes", -1), partitions = (uint32_t)number_option("partitions", 1);
    next_offset = calloc(partitions, sizeof *next_offset);
    if (records <= partitions)
        fail("records=%" PRIu64 " is not more than one for each of %u partitions", records, partitions);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "acks", text_option("acks", "1"));
    set(conf, "linger.ms", text_option("linger_ms", "5"));
    set(conf, "compression.type", text_option("compression", "none"));
    set(conf, "batch.num.messages", text_option("batch_records", "10000"));
    set(conf, "batch.size", "1000000");
    set(conf, "message.max.bytes", "1048000");
    set(conf, "queue.buffering.max.kbytes", "262144");
    set(conf, "queue.buffering.max.messages", "500000");
    set(conf, "message.send.max.retries", "0"); /* a retry would hide what is looked for */
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *client = client_new(RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, text_option("topic", NULL), NULL);
    wait_for_topic(client, topic);
    uint64_t before = records_send_before(client, topic, records, bytes, partitions);
    ready();

    uint64_t started = now_ns();
    records_send(client, topic, before, records - before, bytes, partitions);
    uint64_t elapsed = now_ns() - started;
    putchar('{');
    client_cpu_print();
    if (number_option("checksum", 0))
        printf("\"crc32_sum\": %" PRIu64 ", ", checksum(records, bytes, partitions));
    records -= before;
    printf("\"records\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"seconds\": %.6f}\n", records, records * bytes,
           (double)elapsed / 1e9);
}

/* From offset 0 to the end of every partition, once; returns the time until the last record came. That nothing comes after
 * it is looked at, too, but not counted. */
static uint64_t topic_read(rd_kafka_topic_t *topic, rd_kafka_queue_t *queue, struct ledger *ledger, uint32_t partitions,
                           uint64_t records) {
    static rd_kafka_message_t *messages[1000];
    uint32_t ended = 0;
    uint64_t started = now_ns(), progress = started, read_ns = 0;
    for (uint32_t partition = 0; partition < partitions; partition++)
        if (rd_kafka_consume_start_queue(topic, (int32_t)partition, 0, queue))
            fail("librdkafka: %s", rd_kafka_err2str(rd_kafka_last_error()));
    while (ended < partitions) {
        ssize_t count = rd_kafka_consume_batch_queue(queue, 100, messages, 1000);
        for (ssize_t i = 0; i < count; i++) {
            rd_kafka_message_t *message = messages[i];
            if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
                ended++;
            else if (message->err)
                fail("not read: %s", rd_kafka_message_errstr(message));
            else if (ledger_check(ledger, message->payload, message->len, "topic", message->offset)->sequence !=
                     (uint64_t)message->offset)
                fail("partition %d: a record moved to offset %" PRId64, message->partition, message->offset);
            rd_kafka_message_destroy(message);
        }
        if (count > 0)
            progress = now_ns();
        else if (now_ns() - progress > 20000000000u)
            break;
        if (!read_ns && ledger->records == records)
            read_ns = progress - started;
    }
    if (ledger->records != records)
        fail("%" PRIu64 " records came back of %" PRIu64 " that were acknowledged", ledger->records, records);
    for (uint32_t partition = 0; partition < partitions; partition++)
        rd_kafka_consume_stop(topic, (int32_t)partition);
    return read_ns;
}

void run_consume_bulk(void) {
    uint64_t records = (uint64_t)number_option("records", -1), passes = (uint64_t)number_option("passes", 1), bytes = 0;
    uint32_t partitions = (uint32_t)number_option("partitions", 1);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "group.id", "unused"); /* asked for, although partitions are assigned by hand and nothing is committed */
    set(conf, "enable.auto.commit", "false");
    set(conf, "enable.partition.eof", "true");
    set(conf, "check.crcs", "true");
    set(conf, "queued.min.messages", "10000000"); /* a full queue would make the client pause, whoever the broker is */
    set(conf, "queued.max.messages.kbytes", "1048576");
    set(conf, "fetch.wait.max.ms", "20"); /* matters only at the end, where each pass waits for nothing to come */
    rd_kafka_t *client = client_new(RD_KAFKA_CONSUMER, conf);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, text_option("topic", NULL), NULL);
    wait_for_topic(client, topic);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    ready();

    uint64_t elapsed = 0;
    for (uint64_t pass = 0; pass < passes; pass++) {
        struct ledger ledger = ledger_new(partitions);
        elapsed += topic_read(topic, queue, &ledger, partitions, records);
        bytes += ledger.bytes;
    }
    putchar('{');
    client_cpu_print();
    printf("\"records\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"seconds\": %.6f}\n", records * passes, bytes,
           (double)elapsed / 1e9);
}
