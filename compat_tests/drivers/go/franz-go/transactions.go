package main

import (
	"context"
	"time"

	"drivers/driver"

	"github.com/twmb/franz-go/pkg/kgo"
)

const transactionPatience = time.Minute

type transactional struct{ client *kgo.Client }

// The client asks for its identity here and not at the first transaction, as those of other languages do.
func openTransactional(request driver.Transactional) (driver.Producer, error) {
	options, err := transactionalOptions(request)
	if err != nil {
		return nil, err
	}
	client, err := open(request.Bootstrap, producing(options...)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), transactionPatience)
	defer cancel()
	if _, _, err := client.ProducerID(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return &transactional{client}, nil
}

func transactionalOptions(request driver.Transactional) ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.TransactionalID(request.ID)}
	err := request.Settings.Each(func(name string) (bool, error) {
		if name != "transaction.timeout.ms" {
			return false, nil
		}
		timeout, err := request.Settings.Duration(name)
		options = append(options, kgo.TransactionTimeout(timeout))
		return true, err
	})
	return options, err
}

func (producer *transactional) Begin() error { return producer.client.BeginTransaction() }

func (producer *transactional) Send(topic string, records []driver.Record, within time.Duration) ([]int64, error) {
	return send(producer.client, topic, records, within)
}

func (*transactional) SendOffsets(string, []driver.Offset) error {
	return driver.Unsupported("franz-go sends only the offsets of the group that it is in itself")
}

func (producer *transactional) Commit() error { return producer.end(kgo.TryCommit) }

func (producer *transactional) Abort() error { return producer.end(kgo.TryAbort) }

func (producer *transactional) end(how kgo.TransactionEndTry) error {
	ctx, cancel := context.WithTimeout(context.Background(), transactionPatience)
	defer cancel()
	if how == kgo.TryAbort {
		if err := producer.client.AbortBufferedRecords(ctx); err != nil {
			return err
		}
	}
	return producer.client.EndTransaction(ctx, how)
}

func (producer *transactional) Drop() { producer.client.Close() }

// copyRecords goes back by itself after an abort: the session reads the same records again.
func copyRecords(request driver.Copy) (driver.Answer, error) {
	options, err := transactionalOptions(request.Transactional)
	if err != nil {
		return nil, err
	}
	session, err := openSession(request, options)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(context.Background(), transactionPatience)
	defer cancel()
	copied, transactions := 0, 0
	for copied < request.Count {
		fetches := session.PollRecords(ctx, request.PerTransaction)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		transactions++
		end := kgo.TransactionEndTry(transactions%request.AbortEvery != 0)
		committed, err := copyOnce(ctx, session, request.Target, fetches.Records(), end)
		if err != nil {
			return nil, err
		}
		if committed {
			copied += fetches.NumRecords()
		}
	}
	return driver.Answer{"copied": copied, "transactions": transactions}, nil
}

func openSession(request driver.Copy, options []kgo.Opt) (*kgo.GroupTransactSession, error) {
	options = append(
		producing(options...),
		kgo.SeedBrokers(seeds(request.Bootstrap)...),
		kgo.ConsumerGroup(request.Group),
		kgo.ConsumeTopics(request.Source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)
	return kgo.NewGroupTransactSession(options...)
}

func copyOnce(
	ctx context.Context, session *kgo.GroupTransactSession, target string, records []*kgo.Record, end kgo.TransactionEndTry,
) (bool, error) {
	if err := session.Begin(); err != nil {
		return false, err
	}
	copies := make([]*kgo.Record, 0, len(records))
	for _, record := range records {
		copies = append(copies, &kgo.Record{Topic: target, Partition: record.Partition, Key: record.Key, Value: record.Value})
	}
	if err := session.ProduceSync(ctx, copies...).FirstErr(); err != nil {
		return false, err
	}
	return session.End(ctx, end)
}
