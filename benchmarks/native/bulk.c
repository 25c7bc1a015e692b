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

void run_produce_bulk(void) {
    uint64_t records = (uint64_t)number_option("records", -1);
    uint32_t bytes = (uint32_t)number_option("record_bytes", -1), partitions = (uint32_t)number_option("partitions", 1);
    next_offset = calloc(partitions, sizeof *next_offset);
    uint64_t *sequences = calloc(partitions, sizeof *sequences);
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
    uint8_t *value = malloc(bytes);
    ready();

    uint64_t started = now_ns();
    for (uint64_t i = 0; i < records; i++) {
        uint32_t partition = (uint32_t)(i % partitions);
        value_fill(value, bytes, partition, sequences[partition]++, 0);
        while (rd_kafka_produce(topic, (int32_t)partition, RD_KAFKA_MSG_F_COPY, value, bytes, NULL, 0, NULL)) {
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                fail("librdkafka: %s", rd_kafka_err2str(rd_kafka_last_error()));
            rd_kafka_poll(client, 20);
        }
        if (i % 64 == 0)
            rd_kafka_poll(client, 0);
    }
    while (acknowledged < records && now_ns() - started < 300000000000u)
        rd_kafka_poll(client, 20);
    uint64_t elapsed = now_ns() - started;
    if (acknowledged != records)
        fail("%" PRIu64 " of %" PRIu64 " records were acknowledged", acknowledged, records);
    printf("{\"records\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"seconds\": %.6f}\n", records, records * bytes,
           (double)elapsed / 1e9);
}

void run_consume_bulk(void) {
    uint64_t records = (uint64_t)number_option("records", -1);
    uint32_t partitions = (uint32_t)number_option("partitions", 1), ended = 0;
    struct ledger ledger = ledger_new(partitions);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "group.id", "unused"); /* asked for, although partitions are assigned by hand and nothing is committed */
    set(conf, "enable.auto.commit", "false");
    set(conf, "enable.partition.eof", "true");
    set(conf, "check.crcs", "true");
    rd_kafka_t *client = client_new(RD_KAFKA_CONSUMER, conf);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, text_option("topic", NULL), NULL);
    wait_for_topic(client, topic);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    ready();

    uint64_t started = now_ns(), progress = started;
    for (uint32_t partition = 0; partition < partitions; partition++)
        if (rd_kafka_consume_start_queue(topic, (int32_t)partition, 0, queue))
            fail("librdkafka: %s", rd_kafka_err2str(rd_kafka_last_error()));
    static rd_kafka_message_t *messages[1000];
    while (ended < partitions && ledger.records < records) {
        ssize_t count = rd_kafka_consume_batch_queue(queue, 100, messages, 1000);
        for (ssize_t i = 0; i < count; i++) {
            rd_kafka_message_t *message = messages[i];
            if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
                ended++;
            else if (message->err)
                fail("not read: %s", rd_kafka_message_errstr(message));
            else if (ledger_check(&ledger, message->payload, message->len, "topic", message->offset)->sequence !=
                     (uint64_t)message->offset)
                fail("partition %d: a record moved to offset %" PRId64, message->partition, message->offset);
            rd_kafka_message_destroy(message);
        }
        if (count > 0)
            progress = now_ns();
        else if (now_ns() - progress > 20000000000u)
            break;
    }
    uint64_t elapsed = now_ns() - started;
    if (ledger.records != records)
        fail("%" PRIu64 " records came back of %" PRIu64 " that were acknowledged", ledger.records, records);
    printf("{\"records\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"seconds\": %.6f}\n", ledger.records, ledger.bytes,
           (double)elapsed / 1e9);
}
