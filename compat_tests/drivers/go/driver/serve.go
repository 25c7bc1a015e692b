// Package driver is what the drivers in Go share: a request per line in, an answer per line out, and the parts of the
// contract (harness.py has it) that do not depend on the client.
package driver

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
)

// LargestBytes is above every record that the tests send; the clients' own limits are raised to it.
const LargestBytes = 16 * 1024 * 1024

// Answer is an object of JSON.
type Answer = map[string]any

// Operation answers a request, which it gets as it came.
type Operation func(request []byte) (Answer, error)

// Operations are found by the name that requests have under "op".
type Operations map[string]Operation

// Of makes an operation of a function that wants its request decoded.
func Of[Request any](perform func(Request) (Answer, error)) Operation {
	return func(line []byte) (Answer, error) {
		var request Request
		if err := json.Unmarshal(line, &request); err != nil {
			return nil, err
		}
		return perform(request)
	}
}

// Unsupported is the error for what a client cannot do; it says why.
type Unsupported string

func (reason Unsupported) Error() string { return string(reason) }

// Serve answers until stdin ends. Nothing else may be written to stdout; the clients log to stderr.
func Serve(groups ...Operations) {
	operations := Operations{}
	for _, group := range groups {
		maps.Copy(operations, group)
	}
	requests, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var line json.RawMessage
		if err := requests.Decode(&line); err != nil {
			return
		}
		if err := answers.Encode(operations.answer(line)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
}

func (operations Operations) answer(line []byte) Answer {
	var named struct{ Op string }
	err := json.Unmarshal(line, &named)
	if err != nil {
		return failure(err)
	}
	operation, known := operations[named.Op]
	if !known {
		return failure(Unsupported("this client has no " + named.Op))
	}
	answer, err := operation(line)
	if err != nil {
		return failure(err)
	}
	if answer == nil {
		return Answer{}
	}
	return answer
}

// ErrorName is what the answer says under "error" for those that a client returned.
var ErrorName = func(err error) string { return fmt.Sprintf("%T", err) }

func failure(err error) Answer {
	if reason, ok := err.(Unsupported); ok {
		return Answer{"error": "unsupported", "message": reason.Error()}
	}
	return Answer{"error": ErrorName(err), "message": err.Error()}
}
