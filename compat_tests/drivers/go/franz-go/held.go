package main

import (
	"time"

	"drivers/driver"

	"github.com/twmb/franz-go/pkg/kgo"
)

type held struct {
	topic              string
	producer, consumer *kgo.Client
}

func hold(request driver.Hold) (driver.Held, error) {
	settings, err := groupSettings(request.Settings)
	if err != nil {
		return nil, err
	}
	producer, err := open(request.Bootstrap, producing(settings...)...)
	if err != nil {
		return nil, err
	}
	reading := driver.Consume{Bootstrap: request.Bootstrap, Topic: request.Topic, Partitions: []int32{0}}
	consumer, err := openConsumer(reading, settings...)
	if err != nil {
		producer.Close()
		return nil, err
	}
	return &held{request.Topic, producer, consumer}, nil
}

func (held *held) Send(records []driver.Record, within time.Duration) ([]int64, error) {
	return send(held.producer, held.topic, records, within)
}

func (held *held) Read(count int, within time.Duration) ([]driver.Record, error) {
	return read(held.consumer, count, within)
}

func (held *held) Drop() {
	held.producer.Close()
	held.consumer.Close()
}
