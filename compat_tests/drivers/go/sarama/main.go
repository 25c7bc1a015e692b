// sarama behind the drivers' contract, as it comes or, with the argument "max", with all that it knows of the protocol.
package main

import (
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"drivers/driver"

	"github.com/IBM/sarama"
)

var newest = slices.Contains(os.Args[1:], "max")

func main() {
	driver.ErrorName = errorName
	sarama.Logger = log.New(os.Stderr, "", log.Ltime|log.Lmicroseconds)
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

func newConfig() *sarama.Config {
	config := sarama.NewConfig()
	if newest {
		config.Version = sarama.MaxVersion
	}
	config.Consumer.Fetch.Default = driver.LargestBytes
	config.Consumer.MaxWaitTime = 100 * time.Millisecond // closing a consumer waits for its last fetch
	config.Consumer.Retry.Backoff = 250 * time.Millisecond
	return config
}

func open(bootstrap string, config *sarama.Config) (sarama.Client, error) {
	return sarama.NewClient(strings.Split(bootstrap, ","), config)
}

// withAdmin makes an operation of what is to be done with an admin client, or with the client that it is made of.
func withAdmin[Request any](
	bootstrapOf func(Request) string,
	perform func(sarama.ClusterAdmin, sarama.Client, Request) (driver.Answer, error),
) driver.Operation {
	return driver.Of(func(request Request) (driver.Answer, error) {
		client, err := open(bootstrapOf(request), newConfig())
		if err != nil {
			return nil, err
		}
		admin, err := sarama.NewClusterAdminFromClient(client)
		if err != nil {
			return nil, err
		}
		defer admin.Close()
		return perform(admin, client, request)
	})
}
