package outcome

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Record is the outcome of a round with the server, as a journal keeps it. Exactly one of its first four fields is set.
type Record struct {
	Result json.RawMessage `json:"result,omitempty"` // of the call, as the server sent it
	Error  *jsonrpc.Error  `json:"error,omitempty"`  // of the server
	Words  string          `json:"words,omitempty"`  // that end the call, because it cannot go on
	Sealed string          `json:"sealed,omitempty"` // what the call waits for, with the server's state
	Once   bool            `json:"once,omitempty"`   // the next round must not be sent twice
	NotRun bool            `json:"notRun,omitempty"` // by its status, the server refused round 1 with Error
}

// Endf returns a record that ends a call with these words.
func Endf(format string, args ...any) *Record { return &Record{Words: fmt.Sprintf(format, args...)} }

// Words end a call with a text for the host's model and for people.
type Words string

func (w Words) Error() string { return string(w) }

// UnmarshalJSON reads what a record marshals to.
func (r *Record) UnmarshalJSON(data []byte) error {
	type plain Record
	if err := strictjson.Check(data, Depth); err != nil {
		return fmt.Errorf("the record of a round: %w", err)
	}
	if err := json.Unmarshal(data, (*plain)(r)); err != nil {
		return fmt.Errorf("the record of a round: %w", err)
	}
	set := 0
	for _, is := range []bool{r.Result != nil, r.Error != nil, r.Words != "", r.Sealed != ""} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return fmt.Errorf("the record of a round has %d of result, error, words and sealed: it must have one", set)
	case r.Result != nil && strictjson.TypeOf(r.Result) != strictjson.TypeObject:
		return errors.New("the record of a round has a result that is not an object")
	}
	return nil
}

// End is how a call ends with the record, which is not sealed. Its error is what the host gets.
func (r *Record) End() (json.RawMessage, error) {
	switch {
	case r.Error != nil && r.NotRun:
		return nil, &fault.NotRunError{Err: r.Error}
	case r.Error != nil:
		return nil, r.Error
	case r.Words != "":
		return nil, Words(r.Words)
	}
	return r.Result, nil
}

// Depth is how deep the JSON of a record nests at most: as deep as a server's result, and a little more.
const Depth = 72
