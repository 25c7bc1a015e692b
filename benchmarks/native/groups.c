/* Members of one classic consumer group, by hand: how long until all agree, when all come, when one goes, when one comes.
 *
 * Members heartbeat every heartbeat_ms, which is how they learn that others came or went. A group agrees when every
 * member is in the same generation and every partition belongs to exactly one of them. */

#include "wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_READY_FIRST = 14, NOT_READY_LAST = 16, ILLEGAL_GENERATION = 22, UNKNOWN_MEMBER = 25, REBALANCING = 27,
       MEMBER_ID_REQUIRED = 79 };
enum state { GONE, JOINING, SYNCING, STABLE };

struct member {
    enum state state;
    int32_t generation;
    char id[128];
    uint32_t owned; /* how many partitions, in `owners` */
};

static struct connection *connections;
static struct member *members;
static uint32_t member_count, partitions;
static int32_t *owners; /* the member of each partition, in the generation of `owners_generation` */
static int32_t owners_generation = -1;
static const char *group, *topic;

static bool is(struct reader text, const char *other) {
    return (size_t)(text.end - text.at) == strlen(other) && !memcmp(text.at, other, strlen(other));
}

static void join_send(struct connection *connection) {
    struct member *member = connection->owner;
    member->state = JOINING;
    struct buffer *out = request_begin(connection, JOIN_GROUP, 5, now_ns(), 0);
    put_string(out, group);
    put_i32(out, 30000);
    put_i32(out, 60000);
    put_string(out, member->id);
    put_string(out, NULL);
    put_string(out, "consumer");
    put_i32(out, 1);
    put_string(out, "range");
    put_i32(out, (int32_t)(2 + 4 + 2 + strlen(topic) + 4));
    put_i16(out, 0);
    put_i32(out, 1);
    put_string(out, topic);
    put_i32(out, -1);
    request_finish(connection);
}

/* The leader's answer: member i of n gets partitions i, i + n, i + 2n … */
static void assignments_put(struct buffer *out, struct reader *reply) {
    int32_t count = get_i32(reply);
    put_i32(out, count);
    for (int32_t i = 0; i < count; i++) {
        struct reader id = get_string(reply);
        (void)get_string(reply);
        int32_t metadata = get_i32(reply);
        (void)get_slice(reply, metadata > 0 ? (size_t)metadata : 0);
        put_i16(out, (int16_t)(id.end - id.at));
        put_bytes(out, id.at, (size_t)(id.end - id.at));
        int32_t owned = 0;
        for (uint32_t p = (uint32_t)i; p < partitions; p += (uint32_t)count)
            owned++;
        put_i32(out, (int32_t)(2 + 4 + 2 + strlen(topic) + 4 + 4 * (size_t)owned + 4));
        put_i16(out, 0);
        put_i32(out, 1);
        put_string(out, topic);
        put_i32(out, owned);
        for (uint32_t p = (uint32_t)i; p < partitions; p += (uint32_t)count)
            put_i32(out, (int32_t)p);
        put_i32(out, -1);
    }
}

static void sync_send(struct connection *connection, bool leads, struct reader *reply) {
    struct member *member = connection->owner;
    member->state = SYNCING;
    struct buffer *out = request_begin(connection, SYNC_GROUP, 3, now_ns(), 0);
    put_string(out, group);
    put_i32(out, member->generation);
    put_string(out, member->id);
    put_string(out, NULL);
    if (leads)
        assignments_put(out, reply);
    else
        put_i32(out, 0);
    request_finish(connection);
}

static void join_came(struct connection *connection, struct reader reply) {
    struct member *member = connection->owner;
    (void)get_i32(&reply);
    int16_t error = get_i16(&reply);
    int32_t generation = get_i32(&reply);
    (void)get_string(&reply);
    struct reader leader = get_string(&reply), id = get_string(&reply);
    if (error == MEMBER_ID_REQUIRED || !error)
        snprintf(member->id, sizeof member->id, "%.*s", (int)(id.end - id.at), (const char *)id.at);
    if (error == UNKNOWN_MEMBER)
        member->id[0] = 0;
    if (!error) {
        member->generation = generation;
        sync_send(connection, is(leader, member->id), &reply);
    } else if (error == MEMBER_ID_REQUIRED || error == REBALANCING || error == UNKNOWN_MEMBER ||
               (error >= NOT_READY_FIRST && error <= NOT_READY_LAST))
        join_send(connection);
    else
        fail("JoinGroup was refused with error %d", error);
}

static void sync_came(struct connection *connection, struct reader reply) {
    struct member *member = connection->owner;
    (void)get_i32(&reply);
    int16_t error = get_i16(&reply);
    if (error == REBALANCING || error == ILLEGAL_GENERATION) {
        join_send(connection);
        return;
    }
    if (error)
        fail("SyncGroup was refused with error %d", error);
    member->state = STABLE;
    member->owned = 0;
    if (owners_generation != member->generation) {
        memset(owners, -1, partitions * sizeof *owners);
        owners_generation = member->generation;
    }
    (void)get_i32(&reply), (void)get_i16(&reply);
    for (int32_t topics = get_i32(&reply); topics > 0; topics--) {
        (void)get_string(&reply);
        for (int32_t left = get_i32(&reply); left > 0; left--) {
            uint32_t partition = (uint32_t)get_i32(&reply);
            if (partition >= partitions || owners[partition] >= 0)
                fail("partition %u was given to two members of generation %d", partition, member->generation);
            owners[partition] = (int32_t)connection->index;
            member->owned++;
        }
    }
}

static void reply_came(struct connection *connection, const struct request *request, struct reader reply) {
    struct member *member = connection->owner;
    if (request->api == JOIN_GROUP)
        join_came(connection, reply);
    else if (request->api == SYNC_GROUP)
        sync_came(connection, reply);
    else if (request->api == HEARTBEAT && member->state == STABLE) {
        (void)get_i32(&reply);
        if (get_i16(&reply))
            join_send(connection);
    }
}

static void heartbeat_send(struct connection *connection) {
    struct member *member = connection->owner;
    struct buffer *out = request_begin(connection, HEARTBEAT, 3, now_ns(), 0);
    put_string(out, group);
    put_i32(out, member->generation);
    put_string(out, member->id);
    put_string(out, NULL);
    request_finish(connection);
    network_flush(connection);
}

static void leave_send(struct connection *connection) {
    struct member *member = connection->owner;
    struct buffer *out = request_begin(connection, LEAVE_GROUP, 1, now_ns(), 0);
    put_string(out, group);
    put_string(out, member->id);
    request_finish(connection);
    network_flush(connection);
    member->state = GONE;
    member->id[0] = 0;
}

static bool agreed(uint32_t present, int32_t after) {
    uint32_t stable = 0, owned = 0;
    for (uint32_t i = 0; i < member_count; i++)
        if (members[i].state == STABLE && members[i].generation == owners_generation)
            stable++, owned += members[i].owned;
    if (stable != present || owners_generation <= after)
        return false;
    if (owned != partitions)
        fail("generation %d owns %u of %u partitions", owners_generation, owned, partitions);
    return true;
}

static void wait_until_agreed(uint32_t present, int32_t after, uint64_t heartbeat_ns) {
    uint64_t next = now_ns() + heartbeat_ns, deadline = now_ns() + 60000000000u;
    while (!agreed(present, after)) {
        network_wait(next);
        if (now_ns() < next)
            continue;
        next += heartbeat_ns;
        for (uint32_t i = 0; i < member_count; i++)
            if (members[i].state == STABLE && !connections[i].in_flight)
                heartbeat_send(&connections[i]);
        if (now_ns() > deadline)
            fail("%u members did not agree within a minute", present);
    }
}

void run_groups(void) {
    group = text_option("group", NULL);
    topic = text_option("topic", NULL);
    member_count = (uint32_t)number_option("members", -1);
    partitions = (uint32_t)number_option("partitions", -1);
    uint32_t rounds = (uint32_t)number_option("rounds", 5);
    uint64_t heartbeat_ns = (uint64_t)number_option("heartbeat_ms", 20) * 1000000u;
    members = calloc(member_count, sizeof *members);
    owners = calloc(partitions, sizeof *owners);
    connections = network_open(member_count, reply_came);
    for (uint32_t i = 0; i < member_count; i++)
        connections[i].owner = &members[i];
    struct samples leaves = samples_new(rounds), joins = samples_new(rounds);
    ready();

    uint64_t started = now_ns();
    for (uint32_t i = 0; i < member_count; i++) {
        join_send(&connections[i]);
        network_flush(&connections[i]);
    }
    wait_until_agreed(member_count, -1, heartbeat_ns);
    uint64_t all_joined = now_ns() - started;
    for (uint32_t i = 0; i < rounds; i++) {
        struct connection *mover = &connections[i % member_count];
        uint64_t moved = now_ns();
        leave_send(mover);
        wait_until_agreed(member_count - 1, owners_generation, heartbeat_ns);
        samples_add(&leaves, now_ns() - moved);
        moved = now_ns();
        join_send(mover);
        network_flush(mover);
        wait_until_agreed(member_count, owners_generation, heartbeat_ns);
        samples_add(&joins, now_ns() - moved);
    }
    printf("{\"all_joined_ms\": %.3f, ", (double)all_joined / 1e6);
    samples_print("leave", &leaves);
    samples_print("join", &joins);
    printf("\"seconds\": %.6f}\n", (double)(now_ns() - started) / 1e9);
}
