package main

import (
	"fmt"
	"time"

	"drivers/driver"

	"github.com/twmb/franz-go/pkg/kgo"
)

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
	"uniform":            kgo.CooperativeStickyBalancer, // what the broker is asked for in its place
}

var resets = map[string]kgo.Offset{
	"earliest": kgo.NewOffset().AtStart(),
	"latest":   kgo.NewOffset().AtEnd(),
	"none":     kgo.NoResetOffset(),
}

// Kafka's names for what has a time as its value.
var durations = map[string]func(time.Duration) kgo.Opt{
	"session.timeout.ms":      option(kgo.SessionTimeout),
	"heartbeat.interval.ms":   option(kgo.HeartbeatInterval),
	"max.poll.interval.ms":    option(kgo.RebalanceTimeout),
	"auto.commit.interval.ms": option(kgo.AutoCommitInterval),
	"metadata.max.age.ms":     option(kgo.MetadataMaxAge),
	"request.timeout.ms":      option(kgo.ProduceRequestTimeout),
}

// option forgets which kind of options it is.
func option[Option kgo.Opt](set func(time.Duration) Option) func(time.Duration) kgo.Opt {
	return func(value time.Duration) kgo.Opt { return set(value) }
}

func groupSettings(settings driver.Settings) ([]kgo.Opt, error) {
	var options []kgo.Opt
	err := settings.Each(func(name string) (bool, error) {
		if set, known := durations[name]; known {
			value, err := settings.Duration(name)
			options = append(options, set(value))
			return true, err
		}
		option, err := groupSetting(name, settings.Text(name))
		if option != nil {
			options = append(options, option)
		}
		return option != nil || err != nil, err
	})
	return options, err
}

func groupSetting(name, value string) (kgo.Opt, error) {
	switch name {
	case "partition.assignment.strategy", "group.remote.assignor":
		balancer, known := balancers[value]
		if !known {
			return nil, fmt.Errorf("no such assignor")
		}
		return kgo.Balancers(balancer()), nil
	case "auto.offset.reset":
		return kgo.ConsumeResetOffset(resets[value]), nil
	case "client.id":
		return kgo.ClientID(value), nil
	case "group.instance.id":
		return kgo.InstanceID(value), nil
	case "group.protocol":
		if value == "consumer" {
			return kgo.ServerSideBalancer(), nil
		}
	}
	return nil, nil
}
