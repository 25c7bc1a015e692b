/* Kafka's protocol by hand, on non-blocking sockets in one thread: the client that costs least, and the same for everyone.
 * The versions are those that librdkafka 2.0 speaks, before the flexible ones. */
#ifndef WIRE_H
#define WIRE_H

#include "load.h"

enum api { PRODUCE = 0, FETCH = 1, OFFSET_COMMIT = 8, OFFSET_FETCH = 9, FIND_COORDINATOR = 10, JOIN_GROUP = 11,
           HEARTBEAT = 12, LEAVE_GROUP = 13, SYNC_GROUP = 14, API_VERSIONS = 18 };

struct buffer {
    uint8_t *data;
    size_t used, capacity;
};

struct reader {
    const uint8_t *at, *end;
};

struct request {
    uint64_t due_ns;      /* when it was to be sent: latency counts from here, however late it left */
    uint32_t tag;         /* the sender's own */
    uint32_t correlation; /* replies come in the order of requests; anything else is a failure */
    enum api api;
};

struct connection {
    int fd;
    uint32_t index, in_flight, correlation;
    bool waits_for_room;
    struct buffer in, out;
    size_t out_sent, frame_at;
    struct request *requests; /* a ring of in_flight, beginning at first */
    uint32_t first, ring;
    void *owner;
};

typedef void on_reply(struct connection *connection, const struct request *request, struct reader reply);

struct connection *network_open(uint32_t count, on_reply *handler);
void network_wait(uint64_t until_ns); /* for replies, or until then; 0 does not wait */
void network_call(struct connection *connection); /* sends what was written and waits for its reply */

/* A request is begun, written and finished; frames leave with the next network_flush. */
struct buffer *request_begin(struct connection *connection, enum api api, int16_t version, uint64_t due_ns, uint32_t tag);
void request_finish(struct connection *connection);
void network_flush(struct connection *connection);

void put_i8(struct buffer *out, int8_t value);
void put_i16(struct buffer *out, int16_t value);
void put_i32(struct buffer *out, int32_t value);
void put_i64(struct buffer *out, int64_t value);
void put_string(struct buffer *out, const char *text); /* NULL is null */
void put_bytes(struct buffer *out, const void *data, size_t bytes);
uint8_t *put_room(struct buffer *out, size_t bytes);

int16_t get_i16(struct reader *in);
int32_t get_i32(struct reader *in);
int64_t get_i64(struct reader *in);
int64_t get_varint(struct reader *in);
struct reader get_slice(struct reader *in, size_t bytes);
struct reader get_string(struct reader *in);

/* One batch of `records` values of `bytes` each, of one stream. */
void put_batch(struct buffer *out, uint32_t records, uint32_t bytes, uint32_t stream, uint64_t sequence, uint64_t sent_ns);

#endif
