#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(void);
} MODES[] = {
    {"produce-bulk", run_produce_bulk}, /* librdkafka */
    {"consume-bulk", run_consume_bulk}, /* librdkafka */
    {"produce", run_produce},           /* sockets and frames: requests of one batch, many connections, fixed rates */
    {"read", run_read},                 /* sockets and frames: many readers, read-back, end-to-end latency */
    {"hold", run_hold},                 /* connections that do nothing */
    {"groups", run_groups},             /* members of classic groups */
};

int main(int count, char **words) {
    options_parse(count, words);
    payload_prepare();
    for (size_t i = 0; count > 1 && i < sizeof MODES / sizeof *MODES; i++)
        if (!strcmp(words[1], MODES[i].name)) {
            MODES[i].run();
            /* Clients are not taken down in order: the process ends here, and with it its threads and sockets. */
            fflush(stdout);
            _Exit(0);
        }
    fail("no such mode");
}
