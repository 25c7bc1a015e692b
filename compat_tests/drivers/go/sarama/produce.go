package main

import (
	"errors"
	"time"

	"drivers/driver"

	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

var acks = map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}

func produce(request driver.Produce) (driver.Answer, error) {
	config := producing(request.Idempotence)
	config.Producer.Compression = codecs[request.Compression]
	config.Producer.RequiredAcks = acks[request.Acks]
	config.Producer.Timeout = request.Timeout.Duration()
	config.Net.ReadTimeout = request.Timeout.Duration()
	client, err := open(request.Bootstrap, config)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	offsets, err := send(producer, request.Topic, request.Records)
	return driver.Answer{"offsets": offsets}, err
}

func producing(idempotence bool) *sarama.Config {
	config := newConfig()
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.MaxMessageBytes = driver.LargestBytes
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	if idempotence {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1 // sarama insists
	}
	return config
}

func send(producer sarama.SyncProducer, topic string, records []driver.Record) ([]int64, error) {
	messages := make([]*sarama.ProducerMessage, 0, len(records))
	for _, record := range records {
		messages = append(messages, message(topic, record))
	}
	if err := producer.SendMessages(messages); err != nil {
		var failed sarama.ProducerErrors
		if errors.As(err, &failed) {
			return nil, failed[0].Err // the list itself says only how many
		}
		return nil, err
	}
	offsets := make([]int64, 0, len(messages))
	for _, message := range messages {
		offsets = append(offsets, message.Offset)
	}
	return offsets, nil
}

func message(topic string, record driver.Record) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{Topic: topic, Partition: record.Partition, Timestamp: record.Time()}
	if record.Key != nil {
		message.Key = sarama.ByteEncoder(record.Key)
	}
	if record.Value != nil {
		message.Value = sarama.ByteEncoder(record.Value)
	}
	for _, header := range record.Headers {
		message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
	}
	return message
}
