/* The load generator: what its parts share.
 *
 * `load MODE key=value…` sets itself up, prints "ready", waits for a line on stdin, does its work and prints one line of
 * JSON. Between the two the harness reads the broker's CPU time, so that setting up is nobody's cost. Whatever is not as
 * a correct broker would do it ends the program with {"error": …} and exit code 1: wrong answers have no speed.
 */
#ifndef LOAD_H
#define LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value begins with these, so that a reader can tell a lost, repeated, moved or altered record. */
struct stamp {
    uint32_t stream;   /* who wrote it: records of one stream are read in the order of their sequence */
    uint32_t bytes;    /* of the whole value */
    uint64_t sequence; /* 0, 1, 2 … within the stream */
    uint64_t sent_ns;  /* CLOCK_MONOTONIC, one clock for all processes of the machine */
};

/* What was read of each stream so far. */
struct ledger {
    uint64_t *next;
    uint64_t streams, records, bytes;
};

struct samples {
    uint64_t *ns;
    size_t count, capacity;
};

void options_parse(int count, char **words);
const char *text_option(const char *key, const char *otherwise); /* NULL: the option must be given */
int64_t number_option(const char *key, int64_t otherwise);       /* -1: it must be given */

void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void ready(void);
uint64_t now_ns(void);
void client_cpu_print(void); /* "client_cpu_s": what this program has used since it was ready */

void payload_prepare(void);
void value_fill(uint8_t *value, uint32_t bytes, uint32_t stream, uint64_t sequence, uint64_t sent_ns);
struct ledger ledger_new(uint64_t streams);
const struct stamp *ledger_check(struct ledger *ledger, const void *value, size_t bytes, const char *where, int64_t offset);

struct samples samples_new(size_t capacity);
void samples_add(struct samples *samples, uint64_t ns);
/* "name_ms_p50": …, for p50, p99, max, and p99.9 where ten samples or more lie beyond it. */
void samples_print(const char *name, struct samples *samples);

uint32_t crc32c(const uint8_t *data, size_t bytes);
uint32_t crc32(const uint8_t *data, size_t bytes); /* zlib's, which Spark has, too */

void run_produce_bulk(void);
void run_consume_bulk(void);
void run_produce(void);
void run_read(void);
void run_hold(void);
void run_groups(void);

#endif
