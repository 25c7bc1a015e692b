#define _GNU_SOURCE
#include "wire.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SILENCE_NS 60000000000u

static int poller = -1;
static on_reply *handle;
static uint64_t outstanding, last_reply_ns;

uint8_t *put_room(struct buffer *out, size_t bytes) {
    if (out->used + bytes > out->capacity) {
        out->capacity = (out->used + bytes) * 2;
        out->data = realloc(out->data, out->capacity);
    }
    out->used += bytes;
    return out->data + out->used - bytes;
}

void put_bytes(struct buffer *out, const void *data, size_t bytes) { memcpy(put_room(out, bytes), data, bytes); }
void put_i8(struct buffer *out, int8_t value) { put_bytes(out, &value, 1); }
void put_i16(struct buffer *out, int16_t value) { uint16_t big = htobe16((uint16_t)value); put_bytes(out, &big, 2); }
void put_i32(struct buffer *out, int32_t value) { uint32_t big = htobe32((uint32_t)value); put_bytes(out, &big, 4); }
void put_i64(struct buffer *out, int64_t value) { uint64_t big = htobe64((uint64_t)value); put_bytes(out, &big, 8); }

void put_string(struct buffer *out, const char *text) {
    put_i16(out, text ? (int16_t)strlen(text) : -1);
    if (text)
        put_bytes(out, text, strlen(text));
}

static void put_varint(struct buffer *out, int64_t value) {
    uint64_t zigzag = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    for (; zigzag > 127; zigzag >>= 7)
        put_i8(out, (int8_t)(zigzag | 128));
    put_i8(out, (int8_t)zigzag);
}

static size_t varint_bytes(int64_t value) {
    size_t bytes = 1;
    for (uint64_t zigzag = (uint64_t)value << 1 ^ (uint64_t)(value >> 63); zigzag > 127; zigzag >>= 7)
        bytes++;
    return bytes;
}

struct reader get_slice(struct reader *in, size_t bytes) {
    if ((size_t)(in->end - in->at) < bytes)
        fail("a reply ends before it should");
    struct reader slice = {in->at, in->at + bytes};
    in->at += bytes;
    return slice;
}

int16_t get_i16(struct reader *in) { uint16_t big; memcpy(&big, get_slice(in, 2).at, 2); return (int16_t)be16toh(big); }
int32_t get_i32(struct reader *in) { uint32_t big; memcpy(&big, get_slice(in, 4).at, 4); return (int32_t)be32toh(big); }
int64_t get_i64(struct reader *in) { uint64_t big; memcpy(&big, get_slice(in, 8).at, 8); return (int64_t)be64toh(big); }

int64_t get_varint(struct reader *in) {
    uint64_t zigzag = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        uint8_t byte = *get_slice(in, 1).at;
        zigzag |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return (int64_t)(zigzag >> 1) ^ -(int64_t)(zigzag & 1);
}

struct reader get_string(struct reader *in) {
    int16_t bytes = get_i16(in);
    return get_slice(in, bytes > 0 ? (size_t)bytes : 0);
}

void put_batch(struct buffer *out, uint32_t records, uint32_t bytes, uint32_t stream, uint64_t sequence, uint64_t sent_ns) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    int64_t timestamp = now.tv_sec * 1000 + now.tv_nsec / 1000000;
    size_t start = out->used;
    put_i64(out, 0);
    put_i32(out, 0); /* length, below */
    put_i32(out, -1);
    put_i8(out, 2);
    put_i32(out, 0); /* CRC, below */
    size_t checked = out->used;
    put_i16(out, 0);
    put_i32(out, (int32_t)records - 1);
    put_i64(out, timestamp);
    put_i64(out, timestamp);
    put_i64(out, -1);
    put_i16(out, -1);
    put_i32(out, -1);
    put_i32(out, (int32_t)records);
    for (uint32_t i = 0; i < records; i++) {
        put_varint(out, (int64_t)(4 + varint_bytes(i) + varint_bytes(bytes) + bytes));
        put_i8(out, 0);
        put_varint(out, 0);
        put_varint(out, i);
        put_varint(out, -1);
        put_varint(out, bytes);
        value_fill(put_room(out, bytes), bytes, stream, sequence + i, sent_ns);
        put_varint(out, 0);
    }
    uint32_t length = htobe32((uint32_t)(out->used - start - 12));
    uint32_t crc = htobe32(crc32c(out->data + checked, out->used - checked));
    memcpy(out->data + start + 8, &length, 4);
    memcpy(out->data + checked - 4, &crc, 4);
}

static int connect_to(const char *address) {
    char host[64];
    struct sockaddr_in to = {.sin_family = AF_INET};
    const char *colon = strrchr(address, ':');
    snprintf(host, sizeof host, "%.*s", colon ? (int)(colon - address) : 0, address);
    if (!colon || inet_pton(AF_INET, host, &to.sin_addr) != 1)
        fail("no such address: %s", address);
    to.sin_port = htons((uint16_t)atoi(colon + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to))
        fail("cannot connect to %s: %s", address, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

struct connection *network_open(uint32_t count, on_reply *handler) {
    struct connection *connections = calloc(count, sizeof *connections);
    const char *address = text_option("address", NULL);
    prctl(PR_SET_TIMERSLACK, 1); /* a fixed rate is kept by the clock, not by the kernel's convenience */
    poller = epoll_create1(EPOLL_CLOEXEC);
    handle = handler;
    last_reply_ns = now_ns();
    for (uint32_t i = 0; i < count; i++) {
        struct connection *connection = &connections[i];
        *connection = (struct connection){.fd = connect_to(address), .index = i, .ring = 16};
        connection->requests = calloc(connection->ring, sizeof *connection->requests);
        struct epoll_event interest = {EPOLLIN, {.ptr = connection}};
        epoll_ctl(poller, EPOLL_CTL_ADD, connection->fd, &interest);
    }
    return connections;
}

static struct request *request_add(struct connection *connection) {
    if (connection->in_flight == connection->ring) {
        struct request *larger = calloc(connection->ring * 2, sizeof *larger);
        for (uint32_t i = 0; i < connection->ring; i++)
            larger[i] = connection->requests[(connection->first + i) % connection->ring];
        free(connection->requests);
        connection->requests = larger;
        connection->first = 0;
        connection->ring *= 2;
    }
    return &connection->requests[(connection->first + connection->in_flight++) % connection->ring];
}

struct buffer *request_begin(struct connection *connection, enum api api, int16_t version, uint64_t due_ns, uint32_t tag) {
    struct buffer *out = &connection->out;
    *request_add(connection) = (struct request){due_ns, tag, connection->correlation, api};
    outstanding++;
    connection->frame_at = out->used;
    put_i32(out, 0);
    put_i16(out, (int16_t)api);
    put_i16(out, version);
    put_i32(out, (int32_t)connection->correlation++);
    put_string(out, "load");
    return out;
}

void request_finish(struct connection *connection) {
    uint32_t bytes = htobe32((uint32_t)(connection->out.used - connection->frame_at - 4));
    memcpy(connection->out.data + connection->frame_at, &bytes, 4);
}

void network_flush(struct connection *connection) {
    struct buffer *out = &connection->out;
    while (connection->out_sent < out->used) {
        ssize_t sent = send(connection->fd, out->data + connection->out_sent, out->used - connection->out_sent,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            break;
        if (sent < 0)
            fail("the broker closed a connection: %s", strerror(errno));
        connection->out_sent += (size_t)sent;
    }
    if (connection->out_sent == out->used)
        connection->out_sent = out->used = 0;
    bool waits = out->used > 0;
    if (waits != connection->waits_for_room) {
        struct epoll_event interest = {EPOLLIN | (waits ? EPOLLOUT : 0), {.ptr = connection}};
        epoll_ctl(poller, EPOLL_CTL_MOD, connection->fd, &interest);
        connection->waits_for_room = waits;
    }
}

static void reply_taken(struct connection *connection, struct reader frame) {
    if (!connection->in_flight)
        fail("a reply that nobody asked for");
    struct request request = connection->requests[connection->first];
    connection->first = (connection->first + 1) % connection->ring;
    connection->in_flight--;
    outstanding--;
    if (get_i32(&frame) != (int32_t)request.correlation)
        fail("a reply to another request than the one that is next");
    handle(connection, &request, frame);
}

static void replies_read(struct connection *connection) {
    struct buffer *in = &connection->in;
    size_t room = 256 * 1024, start = 0;
    if (in->capacity - in->used < room)
        put_room(in, room), in->used -= room;
    ssize_t got = recv(connection->fd, in->data + in->used, in->capacity - in->used, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        fail("the broker closed a connection: %s", got ? strerror(errno) : "end of stream");
    in->used += (size_t)got;
    last_reply_ns = now_ns();
    while (in->used - start >= 4) {
        struct reader peek = {in->data + start, in->data + in->used};
        size_t bytes = (size_t)get_i32(&peek);
        if ((size_t)(peek.end - peek.at) < bytes) {
            if (bytes + 4 > in->capacity) {
                size_t used = in->used;
                put_room(in, bytes + 4), in->used = used;
            }
            break;
        }
        reply_taken(connection, get_slice(&peek, bytes));
        start += bytes + 4;
    }
    memmove(in->data, in->data + start, in->used - start);
    in->used -= start;
}

void network_wait(uint64_t until_ns) {
    struct epoll_event events[256];
    uint64_t now = now_ns(), wait = until_ns > now ? until_ns - now : 0;
    struct timespec timeout = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
    int count = epoll_pwait2(poller, events, 256, &timeout, NULL);
    for (int i = 0; i < count; i++) {
        struct connection *connection = events[i].data.ptr;
        if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
            replies_read(connection);
        network_flush(connection);
    }
    if (outstanding && now_ns() > last_reply_ns + SILENCE_NS)
        fail("no reply for %u s", (unsigned)(SILENCE_NS / 1000000000u));
}

void network_call(struct connection *connection) {
    network_flush(connection);
    while (connection->in_flight)
        network_wait(now_ns() + 100000000u);
}
