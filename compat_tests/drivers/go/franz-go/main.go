// franz-go behind the drivers' contract.
package main

import (
	"context"
	"os"
	"strings"
	"time"

	"drivers/driver"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 20 * time.Second

func main() {
	driver.Serve(
		driver.Operations{
			"produce":        driver.Of(produce),
			"consume":        driver.Of(consume),
			"consume_paused": driver.Of(consumePaused),
		},
		offsetOperations,
		topicOperations,
		groupOperations,
		driver.Members(openMember),
		driver.Holds(hold),
		driver.Transactionals(openTransactional, copyRecords),
	)
}

func open(bootstrap string, options ...kgo.Opt) (*kgo.Client, error) {
	shared := []kgo.Opt{
		kgo.SeedBrokers(seeds(bootstrap)...),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
		// A broker that restarts is back before the default would have grown to seconds.
		kgo.RetryBackoffFn(func(int) time.Duration { return 250 * time.Millisecond }),
	}
	return kgo.NewClient(append(shared, options...)...)
}

// withAdmin makes an operation of what is to be done with an admin client.
func withAdmin[Request any](
	bootstrapOf func(Request) string, perform func(context.Context, *kadm.Client, Request) (driver.Answer, error),
) driver.Operation {
	return driver.Of(func(request Request) (driver.Answer, error) {
		client, err := open(bootstrapOf(request))
		if err != nil {
			return nil, err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return perform(ctx, kadm.NewClient(client), request)
	})
}

func seeds(bootstrap string) []string { return strings.Split(bootstrap, ",") }
