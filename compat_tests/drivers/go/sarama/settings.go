package main

import (
	"errors"
	"time"

	"drivers/driver"

	"github.com/IBM/sarama"
)

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":              sarama.NewBalanceStrategyRange,
	"roundrobin":         sarama.NewBalanceStrategyRoundRobin,
	"sticky":             sarama.NewBalanceStrategySticky,
	"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
}

var resets = map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest}

func groupConfig(settings driver.Settings) (*sarama.Config, error) {
	config := newConfig()
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Rebalance.Retry.Backoff = 250 * time.Millisecond
	outlive(config)
	return config, apply(config, settings)
}

// outlive lets sarama go on trying while a broker restarts; by default it gives up within a second.
func outlive(config *sarama.Config) {
	config.Metadata.Retry.Max = 100
	config.Metadata.RefreshFrequency = 500 * time.Millisecond
	config.Producer.Retry.Max = 100
	config.Producer.Retry.Backoff = 250 * time.Millisecond
	config.Consumer.Group.Rebalance.Retry.Max = 100
}

func apply(config *sarama.Config, settings driver.Settings) error {
	group := &config.Consumer.Group
	durations := map[string]*time.Duration{
		"session.timeout.ms":      &group.Session.Timeout,
		"heartbeat.interval.ms":   &group.Heartbeat.Interval,
		"max.poll.interval.ms":    &group.Rebalance.Timeout,
		"auto.commit.interval.ms": &config.Consumer.Offsets.AutoCommit.Interval,
		"metadata.max.age.ms":     &config.Metadata.RefreshFrequency,
		"request.timeout.ms":      &config.Net.ReadTimeout,
	}
	return settings.Each(func(name string) (bool, error) {
		if duration, known := durations[name]; known {
			var err error
			*duration, err = settings.Duration(name)
			return true, err
		}
		return set(config, name, settings.Text(name))
	})
}

func set(config *sarama.Config, name, value string) (bool, error) {
	switch name {
	case "partition.assignment.strategy":
		strategy, known := strategies[value]
		if !known {
			return true, errors.New("no such assignor")
		}
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy()}
	case "group.instance.id":
		config.Consumer.Group.InstanceId = value
	case "client.id":
		config.ClientID = value
	case "auto.offset.reset":
		config.Consumer.Offsets.Initial = resets[value]
	default:
		return name == "group.protocol" && value == "classic", nil
	}
	return true, nil
}
