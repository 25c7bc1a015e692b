package driver

import (
	"fmt"
	"strconv"
	"time"
)

// Settings are named as Kafka names them; a number may come as a number or as text.
type Settings map[string]any

func (settings Settings) Text(name string) string {
	if number, ok := settings[name].(float64); ok {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	return fmt.Sprint(settings[name])
}

func (settings Settings) Duration(name string) (time.Duration, error) {
	ms, err := strconv.ParseInt(settings.Text(name), 10, 64)
	return time.Duration(ms) * time.Millisecond, err
}

// Each gives every setting that was made to `set`, which returns false for those that the client does not have.
func (settings Settings) Each(set func(name string) (bool, error)) error {
	for name := range settings {
		known, err := set(name)
		if err != nil {
			return fmt.Errorf("%s=%s: %w", name, settings.Text(name), err)
		}
		if !known {
			return Unsupported("this client has no setting like " + name)
		}
	}
	return nil
}
