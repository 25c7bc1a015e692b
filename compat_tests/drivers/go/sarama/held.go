package main

import (
	"errors"
	"time"

	"drivers/driver"

	"github.com/IBM/sarama"
)

type held struct {
	topic    string
	client   sarama.Client
	producer sarama.SyncProducer
	reader   *reader
}

func hold(request driver.Hold) (driver.Held, error) {
	config := producing(true)
	outlive(config)
	if err := apply(config, request.Settings); err != nil {
		return nil, err
	}
	client, err := open(request.Bootstrap, config)
	if err != nil {
		return nil, err
	}
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return nil, err
	}
	reader, err := openReader(request.Bootstrap, config)
	if err != nil {
		return nil, err
	}
	held := &held{request.Topic, client, producer, reader}
	return held, reader.start(driver.Partition{Topic: request.Topic}, sarama.OffsetOldest)
}

func (held *held) Send(records []driver.Record, within time.Duration) ([]int64, error) {
	type sent struct {
		offsets []int64
		err     error
	}
	done := make(chan sent, 1)
	go func() {
		offsets, err := send(held.producer, held.topic, records)
		done <- sent{offsets, err}
	}()
	select {
	case answer := <-done:
		return answer.offsets, answer.err
	case <-time.After(within):
		return nil, errors.New("not acknowledged in time")
	}
}

// What goes wrong while a broker restarts sarama tries again by itself.
func (held *held) Read(count int, within time.Duration) ([]driver.Record, error) {
	deadline := time.Now().Add(within)
	records := []driver.Record{}
	for len(records) < count && time.Now().Before(deadline) {
		more, err := held.reader.read(count-len(records), time.Until(deadline))
		if err != nil {
			sarama.Logger.Println("reads again after", err)
		}
		records = append(records, more...)
	}
	return records, nil
}

func (held *held) Drop() {
	held.producer.Close()
	held.client.Close()
	held.reader.close()
}
