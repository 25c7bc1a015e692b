package main

import (
	"drivers/driver"

	"github.com/IBM/sarama"
)

var offsetOperations = driver.Operations{
	"offsets":      onOffsets(offsets),
	"list_offsets": onOffsets(listOffsets),
}

func onOffsets(
	perform func(sarama.ClusterAdmin, sarama.Client, driver.ListOffsets) (driver.Answer, error),
) driver.Operation {
	return withAdmin(func(request driver.ListOffsets) string { return request.Bootstrap }, perform)
}

func offsets(_ sarama.ClusterAdmin, client sarama.Client, request driver.ListOffsets) (driver.Answer, error) {
	found := []*int64{}
	for _, timestamp := range append([]int64{driver.Earliest, driver.Latest}, request.Timestamps...) {
		offset, err := offsetAt(client, request.Topic, request.Partitions[0], timestamp)
		if err != nil {
			return nil, err
		}
		found = append(found, offset)
	}
	return driver.Answer{"beginning": found[0], "end": found[1], "at": found[2:]}, nil
}

func listOffsets(_ sarama.ClusterAdmin, client sarama.Client, request driver.ListOffsets) (driver.Answer, error) {
	found := []*int64{}
	for _, partition := range request.Partitions {
		offset, err := offsetAt(client, request.Topic, partition, request.Timestamp)
		if err != nil {
			return nil, err
		}
		found = append(found, offset)
	}
	return driver.Answer{"offsets": found}, nil
}

// The places have the same numbers in sarama.
func offsetAt(client sarama.Client, topic string, partition int32, timestamp int64) (*int64, error) {
	offset, err := client.GetOffset(topic, partition, timestamp)
	if err != nil || offset < 0 {
		return nil, err
	}
	return &offset, nil
}
