package main

import (
	"context"
	"errors"
	"time"

	"drivers/driver"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acks = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

func produce(request driver.Produce) (driver.Answer, error) {
	options := producing(
		kgo.ProducerBatchCompression(codecs[request.Compression]),
		kgo.RequiredAcks(acks[request.Acks]),
	)
	if !request.Idempotence {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	producer, err := open(request.Bootstrap, options...)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	offsets, err := send(producer, request.Topic, request.Records, request.Timeout.Duration())
	return driver.Answer{"offsets": offsets}, err
}

func producing(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(driver.LargestBytes),
		kgo.ProducerLinger(20 * time.Millisecond),
		kgo.AllowAutoTopicCreation(),
	}, more...)
}

func send(producer *kgo.Client, topic string, records []driver.Record, within time.Duration) ([]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	sent := make([]*kgo.Record, 0, len(records))
	for _, record := range records {
		headers := make([]kgo.RecordHeader, 0, len(record.Headers))
		for _, header := range record.Headers {
			headers = append(headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
		}
		sent = append(sent, &kgo.Record{
			Topic:     topic,
			Partition: record.Partition,
			Timestamp: record.Time(),
			Key:       record.Key,
			Value:     record.Value,
			Headers:   headers,
		})
	}
	if err := producer.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, 0, len(sent))
	for _, record := range sent {
		offsets = append(offsets, record.Offset)
	}
	return offsets, nil
}

func consume(request driver.Consume) (driver.Answer, error) {
	consumer, err := openConsumer(request)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	records, err := read(consumer, request.Count, request.Timeout.Duration())
	return driver.Answer{"records": records}, err
}

func consumePaused(request driver.Consume) (driver.Answer, error) {
	consumer, err := openConsumer(request)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	paused := map[string][]int32{request.Topic: request.Pause}
	consumer.PauseFetchPartitions(paused)
	records, err := read(consumer, request.Count, request.Timeout.Duration())
	if err != nil {
		return nil, err
	}
	consumer.ResumeFetchPartitions(paused)
	after, err := read(consumer, request.After, request.Timeout.Duration())
	return driver.Answer{"records": records, "after": after}, err
}

func openConsumer(request driver.Consume, more ...kgo.Opt) (*kgo.Client, error) {
	offsets := map[int32]kgo.Offset{}
	for _, partition := range request.Partitions {
		offsets[partition] = startOf(request.Start)
	}
	options := append(
		[]kgo.Opt{
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{request.Topic: offsets}),
			kgo.ConsumeResetOffset(resetOf(request.Reset)),
			kgo.FetchIsolationLevel(isolationOf(request.Isolation)),
			kgo.FetchMaxPartitionBytes(driver.LargestBytes),
			kgo.FetchMaxWait(500 * time.Millisecond),
		},
		more...,
	)
	return open(request.Bootstrap, options...)
}

func startOf(start driver.Start) kgo.Offset {
	switch {
	case start.Offset != nil:
		return kgo.NewOffset().At(*start.Offset)
	case start.Timestamp != nil:
		return kgo.NewOffset().AfterMilli(*start.Timestamp)
	case start.End:
		return kgo.NewOffset().AtEnd()
	default:
		return kgo.NewOffset().AtStart()
	}
}

func read(consumer *kgo.Client, count int, within time.Duration) ([]driver.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	records := []driver.Record{}
	for len(records) < count && ctx.Err() == nil {
		fetches := consumer.PollRecords(ctx, count-len(records))
		for _, failed := range fetches.Errors() {
			if !errors.Is(failed.Err, context.DeadlineExceeded) {
				return nil, failed.Err
			}
		}
		fetches.EachRecord(func(record *kgo.Record) { records = append(records, told(record)) })
	}
	return records, nil
}

func told(record *kgo.Record) driver.Record {
	var headers []driver.Header
	for _, header := range record.Headers {
		headers = append(headers, driver.Header{Name: header.Key, Value: header.Value})
	}
	return driver.Read(record.Partition, record.Offset, record.Timestamp, record.Key, record.Value, headers)
}

func resetOf(name *string) kgo.Offset {
	if name == nil {
		return kgo.NewOffset().AtStart() // its default
	}
	return resets[*name]
}

func isolationOf(name string) kgo.IsolationLevel {
	if name == "read_committed" {
		return kgo.ReadCommitted()
	}
	return kgo.ReadUncommitted()
}
