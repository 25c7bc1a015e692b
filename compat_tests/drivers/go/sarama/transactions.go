package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"drivers/driver"

	"github.com/IBM/sarama"
)

const transactionPatience = time.Minute

type transactional struct {
	client   sarama.Client
	producer sarama.SyncProducer
}

func openTransactional(request driver.Transactional) (driver.Producer, error) {
	return newTransactional(request)
}

func newTransactional(request driver.Transactional) (*transactional, error) {
	config := producing(true)
	outlive(config)
	config.Producer.Transaction.ID = request.ID
	config.Producer.Transaction.Retry.Max = 200
	err := request.Settings.Each(func(name string) (bool, error) {
		if name != "transaction.timeout.ms" {
			return false, nil
		}
		var err error
		config.Producer.Transaction.Timeout, err = request.Settings.Duration(name)
		return true, err
	})
	if err != nil {
		return nil, err
	}
	client, err := open(request.Bootstrap, config)
	if err != nil {
		return nil, err
	}
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		client.Close()
		return nil, err
	}
	return &transactional{client, producer}, nil
}

func (transactional *transactional) Begin() error { return transactional.producer.BeginTxn() }

func (transactional *transactional) Send(topic string, records []driver.Record, _ time.Duration) ([]int64, error) {
	return send(transactional.producer, topic, records)
}

func (transactional *transactional) SendOffsets(group string, offsets []driver.Offset) error {
	return transactional.producer.AddOffsetsToTxn(ofTransaction(offsets), group)
}

func ofTransaction(offsets []driver.Offset) map[string][]*sarama.PartitionOffsetMetadata {
	stated := map[string][]*sarama.PartitionOffsetMetadata{}
	for _, offset := range offsets {
		stated[offset.Topic] = append(stated[offset.Topic], &sarama.PartitionOffsetMetadata{
			Partition: offset.Partition, Offset: offset.Offset, LeaderEpoch: -1,
		})
	}
	return stated
}

func (transactional *transactional) Commit() error {
	if status := transactional.producer.TxnStatus(); status&sarama.ProducerTxnFlagInError != 0 {
		return fmt.Errorf("the transaction is in state %s", status)
	}
	return transactional.producer.CommitTxn()
}

func (transactional *transactional) Abort() error { return transactional.producer.AbortTxn() }

func (transactional *transactional) Drop() {
	transactional.producer.Close()
	transactional.client.Close()
}

// copier is what sarama calls with the records of each partition, in goroutines of their own; a producer has one
// transaction at a time.
type copier struct {
	request      driver.Copy
	producer     *transactional
	lock         sync.Mutex
	copied       int
	transactions int
	err          error
	end          context.CancelFunc
}

func copyRecords(request driver.Copy) (driver.Answer, error) {
	producer, err := newTransactional(request.Transactional)
	if err != nil {
		return nil, err
	}
	defer producer.Drop()
	config := newConfig()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	group, err := sarama.NewConsumerGroup(strings.Split(request.Bootstrap, ","), request.Group, config)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	ctx, cancel := context.WithTimeout(context.Background(), transactionPatience)
	defer cancel()
	copier := &copier{request: request, producer: producer, end: cancel}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{request.Source}, copier); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	return driver.Answer{"copied": copier.copied, "transactions": copier.transactions}, copier.err
}

func (*copier) Setup(sarama.ConsumerGroupSession) error { return nil }

func (*copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (copier *copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		messages := []*sarama.ConsumerMessage{message}
		for len(messages) < copier.request.PerTransaction && len(claim.Messages()) > 0 {
			messages = append(messages, <-claim.Messages())
		}
		if err := copier.copy(session, messages); err != nil {
			copier.end()
			return err
		}
	}
	return nil
}

func (copier *copier) copy(session sarama.ConsumerGroupSession, messages []*sarama.ConsumerMessage) error {
	copier.lock.Lock()
	defer copier.lock.Unlock()
	copier.transactions++
	if copier.transactions%copier.request.AbortEvery == 0 {
		copier.err = errors.Join(copier.once(session, messages), copier.producer.Abort())
	}
	if copier.err == nil {
		copier.err = errors.Join(copier.once(session, messages), copier.producer.Commit())
	}
	if copier.err != nil {
		return copier.err
	}
	if copier.copied += len(messages); copier.copied >= copier.request.Count {
		copier.end()
	}
	return nil
}

func (copier *copier) once(session sarama.ConsumerGroupSession, messages []*sarama.ConsumerMessage) error {
	if err := copier.producer.Begin(); err != nil {
		return err
	}
	copies := make([]driver.Record, 0, len(messages))
	for _, message := range messages {
		copies = append(copies, driver.Record{Partition: message.Partition, Key: message.Key, Value: message.Value})
	}
	if _, err := send(copier.producer.producer, copier.request.Target, copies); err != nil {
		return err
	}
	last := messages[len(messages)-1]
	metadata := sarama.NewConsumerGroupMetadataFromSession(session, copier.request.Group, nil)
	offset := driver.Offset{Topic: last.Topic, Partition: last.Partition}
	offset.Offset = last.Offset + 1
	return copier.producer.producer.AddOffsetsToTxnWithGroupMetadata(ofTransaction([]driver.Offset{offset}), metadata)
}
