package main

import (
	"errors"
	"time"

	"drivers/driver"

	"github.com/IBM/sarama"
)

func consume(request driver.Consume) (driver.Answer, error) {
	config := newConfig()
	if request.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	reader, err := openReader(request.Bootstrap, config)
	if err != nil {
		return nil, err
	}
	defer reader.close()
	if err := reader.startAll(request); err != nil {
		return nil, err
	}
	records, err := reader.read(request.Count, request.Timeout.Duration())
	return driver.Answer{"records": records}, err
}

func consumePaused(request driver.Consume) (driver.Answer, error) {
	reader, err := openReader(request.Bootstrap, newConfig())
	if err != nil {
		return nil, err
	}
	defer reader.close()
	if err := reader.startAll(request); err != nil {
		return nil, err
	}
	paused := map[string][]int32{request.Topic: request.Pause}
	reader.consumer.Pause(paused) // before the first fetch: sarama collects partitions for a while
	records, err := reader.read(request.Count, request.Timeout.Duration())
	if err != nil {
		return nil, err
	}
	reader.consumer.Resume(paused)
	after, err := reader.read(request.After, request.Timeout.Duration())
	return driver.Answer{"records": records, "after": after}, err
}

// reader has what sarama gives per partition in one channel.
type reader struct {
	client     sarama.Client
	consumer   sarama.Consumer
	partitions map[driver.Partition]sarama.PartitionConsumer
	messages   chan *sarama.ConsumerMessage
	errors     chan error
	closed     chan struct{}
}

func openReader(bootstrap string, config *sarama.Config) (*reader, error) {
	config.Consumer.Return.Errors = true
	client, err := open(bootstrap, config)
	if err != nil {
		return nil, err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	return &reader{
		client:     client,
		consumer:   consumer,
		partitions: map[driver.Partition]sarama.PartitionConsumer{},
		messages:   make(chan *sarama.ConsumerMessage),
		errors:     make(chan error),
		closed:     make(chan struct{}),
	}, nil
}

func (reader *reader) startAll(request driver.Consume) error {
	for _, number := range request.Partitions {
		partition := driver.Partition{Topic: request.Topic, Number: number}
		offset, err := reader.startOf(partition, request.Start)
		if err != nil {
			return err
		}
		err = reader.start(partition, offset)
		if place, wanted := resetOf(request.Reset); wanted && errors.Is(err, sarama.ErrOffsetOutOfRange) {
			err = reader.start(partition, place) // sarama leaves that to its users
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (reader *reader) startOf(partition driver.Partition, start driver.Start) (int64, error) {
	switch {
	case start.Offset != nil:
		return *start.Offset, nil
	case start.Timestamp != nil:
		return reader.client.GetOffset(partition.Topic, partition.Number, *start.Timestamp)
	case start.End:
		return sarama.OffsetNewest, nil
	default:
		return sarama.OffsetOldest, nil
	}
}

func resetOf(name *string) (place int64, wanted bool) {
	if name == nil {
		return 0, false
	}
	place, wanted = resets[*name]
	return place, wanted
}

func (reader *reader) start(partition driver.Partition, offset int64) error {
	var consumer sarama.PartitionConsumer
	err := untilKnown(sarama.ErrNotLeaderForPartition, func() (err error) {
		consumer, err = reader.consumer.ConsumePartition(partition.Topic, partition.Number, offset)
		return err
	})
	if err != nil {
		return err
	}
	reader.partitions[partition] = consumer
	go func() {
		for message := range consumer.Messages() {
			select {
			case reader.messages <- message:
			case <-reader.closed: // and the rest goes nowhere
			}
		}
	}()
	go func() {
		for failed := range consumer.Errors() {
			select {
			case reader.errors <- failed.Err:
			case <-reader.closed:
			}
		}
	}()
	return nil
}

// seek stops reading the partition and starts again elsewhere: sarama has no other way.
func (reader *reader) seek(partition driver.Partition, offset int64) error {
	if err := reader.partitions[partition].Close(); err != nil {
		return err
	}
	return reader.start(partition, offset)
}

func (reader *reader) read(count int, within time.Duration) ([]driver.Record, error) {
	deadline := time.After(within)
	records := []driver.Record{}
	for len(records) < count {
		select {
		case message := <-reader.messages:
			records = append(records, told(message))
		case err := <-reader.errors:
			return records, err
		case <-deadline:
			return records, nil
		}
	}
	return records, nil
}

func told(message *sarama.ConsumerMessage) driver.Record {
	var headers []driver.Header
	for _, header := range message.Headers {
		headers = append(headers, driver.Header{Name: string(header.Key), Value: header.Value})
	}
	return driver.Read(message.Partition, message.Offset, message.Timestamp, message.Key, message.Value, headers)
}

func (reader *reader) close() {
	close(reader.closed)
	for _, partition := range reader.partitions {
		partition.AsyncClose()
	}
	reader.consumer.Close()
	reader.client.Close()
}
