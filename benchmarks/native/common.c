/* Options, clock, stamped values, ordered latencies: what every mode uses. */

#define _GNU_SOURCE
#include "load.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define POOL_BYTES (16u << 20)
#define VALUE_BYTES_MAX (2u << 20)

static char **option_words;
static int option_count;
static double cpu_s_when_ready;
static char pool[POOL_BYTES + VALUE_BYTES_MAX];

void options_parse(int count, char **words) {
    option_count = count;
    option_words = words;
}

const char *text_option(const char *key, const char *otherwise) {
    size_t length = strlen(key);
    for (int i = 0; i < option_count; i++)
        if (!strncmp(option_words[i], key, length) && option_words[i][length] == '=')
            return option_words[i] + length + 1;
    if (!otherwise)
        fail("%s=… is missing", key);
    return otherwise;
}

int64_t number_option(const char *key, int64_t otherwise) {
    const char *text = text_option(key, otherwise < 0 ? NULL : "");
    return *text ? strtoll(text, NULL, 10) : otherwise;
}

void fail(const char *format, ...) {
    char message[1000], *at = message;
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    for (; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
            *at = '\'';
    printf("{\"error\": \"%s\"}\n", message);
    fflush(stdout);
    _Exit(1);
}

static double cpu_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

void client_cpu_print(void) { printf("\"client_cpu_s\": %.6f, ", cpu_s() - cpu_s_when_ready); }

void ready(void) {
    cpu_s_when_ready = cpu_s();
    puts("ready");
    fflush(stdout);
    for (int c = getchar(); c != '\n'; c = getchar())
        if (c == EOF)
            _Exit(3); /* the harness is gone */
}

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Events as services log them: text that repeats itself and does not, so that codecs have their usual work. */
void payload_prepare(void) {
    static const char *const words[] = {"created", "paid", "shipped", "returned", "pending", "refused", "berlin", "prague",
                                        "vienna",  "lisbon", "toronto", "nairobi", "card", "invoice", "voucher", "cash"};
    uint64_t state = 88172645463325252u;
    size_t at = 0;
    while (at < sizeof pool - 256) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        at += (size_t)snprintf(pool + at, 256,
                               "{\"order\":%" PRIu64 ",\"customer\":\"%08" PRIx64 "\",\"state\":\"%s\",\"city\":\"%s\","
                               "\"amount\":%u.%02u,\"note\":\"%s by %s\"}",
                               state % 100000000, state >> 32, words[state >> 8 & 7], words[state >> 12 & 15],
                               (unsigned)(state >> 16 & 1023), (unsigned)(state >> 28) % 100, words[state >> 36 & 15],
                               words[state >> 40 & 15]);
    }
    memset(pool + at, '.', sizeof pool - at);
}

/* Records that follow each other are different text: no codec may profit from a pool that repeats within a batch. */
static const char *payload_of(uint32_t bytes, uint32_t stream, uint64_t sequence) {
    return pool + (sequence * (bytes | 1) + stream * 7919u) % POOL_BYTES;
}

void value_fill(uint8_t *value, uint32_t bytes, uint32_t stream, uint64_t sequence, uint64_t sent_ns) {
    struct stamp stamp = {stream, bytes, sequence, sent_ns};
    memcpy(value, &stamp, sizeof stamp);
    memcpy(value + sizeof stamp, payload_of(bytes, stream, sequence), bytes - sizeof stamp);
}

struct ledger ledger_new(uint64_t streams) {
    return (struct ledger){calloc(streams, sizeof(uint64_t)), streams, 0, 0};
}

const struct stamp *ledger_check(struct ledger *ledger, const void *value, size_t bytes, const char *where, int64_t offset) {
    const struct stamp *stamp = value;
    if (bytes < sizeof *stamp || stamp->bytes != bytes || stamp->stream >= ledger->streams)
        fail("%s offset %" PRId64 ": %zu bytes that nobody wrote", where, offset, bytes);
    uint64_t expected = ledger->next[stamp->stream];
    if (stamp->sequence != expected)
        fail("%s offset %" PRId64 ": record %" PRIu64 " of stream %u where %" PRIu64 " belongs: %s", where, offset,
             stamp->sequence, stamp->stream, expected, stamp->sequence < expected ? "repeated or late" : "something is missing");
    if (memcmp(stamp + 1, payload_of(stamp->bytes, stamp->stream, stamp->sequence), bytes - sizeof *stamp))
        fail("%s offset %" PRId64 ": the record's content was altered", where, offset);
    ledger->next[stamp->stream]++;
    ledger->records++;
    ledger->bytes += bytes;
    return stamp;
}

struct samples samples_new(size_t capacity) {
    return (struct samples){malloc((capacity ? capacity : 1) * sizeof(uint64_t)), 0, capacity};
}

void samples_add(struct samples *samples, uint64_t ns) {
    if (samples->count < samples->capacity)
        samples->ns[samples->count++] = ns;
}

static int ascending(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The nearest rank: the smallest sample that at least so many of a thousand do not exceed. */
static double quantile_ms(const struct samples *samples, size_t per_mille) {
    return (double)samples->ns[(samples->count * per_mille + 999) / 1000 - 1] / 1e6;
}

void samples_print(const char *name, struct samples *samples) {
    if (!samples->count)
        fail("no latency was measured");
    qsort(samples->ns, samples->count, sizeof(uint64_t), ascending);
    printf("\"%s_ms_p50\": %.4f, \"%s_ms_p99\": %.4f, \"%s_ms_max\": %.4f, ", name, quantile_ms(samples, 500), name,
           quantile_ms(samples, 990), name, quantile_ms(samples, 1000));
    if (samples->count >= 10000)
        printf("\"%s_ms_p99.9\": %.4f, ", name, quantile_ms(samples, 999));
}

static uint32_t crc_by_table(uint32_t *table, uint32_t polynomial, const uint8_t *data, size_t bytes) {
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; bit++)
                value = value >> 1 ^ (value & 1 ? polynomial : 0);
            table[i] = value;
        }
    uint32_t crc = ~0u;
    for (; bytes; bytes--)
        crc = crc >> 8 ^ table[(crc ^ *data++) & 255];
    return ~crc;
}

uint32_t crc32(const uint8_t *data, size_t bytes) {
    static uint32_t table[256];
    return crc_by_table(table, 0xedb88320u, data, bytes);
}

#ifdef __x86_64__
#define LANE_BYTES 1024

__attribute__((target("sse4.2"))) static uint64_t crc32c_step(uint64_t crc, const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return __builtin_ia32_crc32di(crc, word);
}

/* What a register becomes when LANE_BYTES zeros follow. That is linear: the sum of what becomes of its bits. */
__attribute__((target("sse4.2"))) static uint32_t crc32c_over_lane(uint32_t crc) {
    static const uint8_t zeros[8];
    static uint32_t table[4][256];
    if (!table[0][1])
        for (int byte = 0; byte < 4; byte++)
            for (uint32_t value = 1; value < 256; value++) {
                uint64_t moved = (uint64_t)value << 8 * byte;
                for (int i = 0; i < LANE_BYTES; i += 8)
                    moved = crc32c_step(moved, zeros);
                table[byte][value] = (uint32_t)moved;
            }
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
}

/* The instruction takes three cycles, but one may begin in each: three lanes take no longer than one. A reader that
 * checks every batch should not be what is measured. */
__attribute__((target("sse4.2"))) static uint32_t crc32c_instruction(const uint8_t *data, size_t bytes) {
    uint64_t crc = ~0u;
    for (; bytes >= 3 * LANE_BYTES; bytes -= 3 * LANE_BYTES, data += 3 * LANE_BYTES) {
        uint64_t second = 0, third = 0;
        for (int i = 0; i < LANE_BYTES; i += 8) {
            crc = crc32c_step(crc, data + i);
            second = crc32c_step(second, data + LANE_BYTES + i);
            third = crc32c_step(third, data + 2 * LANE_BYTES + i);
        }
        crc = crc32c_over_lane(crc32c_over_lane((uint32_t)crc) ^ (uint32_t)second) ^ (uint32_t)third;
    }
    for (; bytes >= 8; bytes -= 8, data += 8)
        crc = crc32c_step(crc, data);
    for (; bytes; bytes--)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *data++);
    return ~(uint32_t)crc;
}
#endif

uint32_t crc32c(const uint8_t *data, size_t bytes) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_instruction(data, bytes);
#endif
    static uint32_t table[256];
    return crc_by_table(table, 0x82f63b78u, data, bytes);
}
