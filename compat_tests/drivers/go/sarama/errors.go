package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// sarama has sentences for Kafka's errors, not their names, by which the tests know these.
var kafkaNames = map[sarama.KError]string{
	sarama.ErrOffsetOutOfRange:        "OFFSET_OUT_OF_RANGE",
	sarama.ErrUnknownTopicOrPartition: "UNKNOWN_TOPIC_OR_PARTITION",
	sarama.ErrUnknownMemberId:         "UNKNOWN_MEMBER_ID",
}

func errorName(err error) string {
	var code sarama.KError
	if errors.As(err, &code) && kafkaNames[code] != "" {
		return kafkaNames[code]
	}
	return fmt.Sprintf("%T", err)
}

// untilKnown asks again what a broker refuses because it has not heard of a new topic yet. Other clients do that
// themselves; sarama leaves it to its users.
func untilKnown(early sarama.KError, ask func() error) error {
	deadline := time.Now().Add(5 * time.Second)
	for {
		err := ask()
		if !errors.Is(err, early) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
