package bridge

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/seal"
)

// record is what a round with the server brought, as a journal keeps it. Exactly one of its first four fields is set.
type record struct {
	Result json.RawMessage `json:"result,omitempty"` // of the call, as the server sent it
	Error  *jsonrpc.Error  `json:"error,omitempty"`  // of the server
	Words  string          `json:"words,omitempty"`  // that end the call, because it cannot go on
	Sealed string          `json:"sealed,omitempty"` // what the call waits for, with the server's state
	Once   bool            `json:"once,omitempty"`   // the next round must not be sent twice
	NotRun bool            `json:"notRun,omitempty"` // by its status, the server refused round 1 with Error
}

// words end a call with a text for the host's model and for people.
type words string

func (w words) Error() string { return string(w) }

// UnmarshalJSON reads what a record marshals to.
func (r *record) UnmarshalJSON(data []byte) error {
	type plain record
	if err := strictjson.Check(data, depth); err != nil {
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

// outcome is how a call ends with the record, which is not sealed.
func (r *record) outcome() (json.RawMessage, error) {
	switch {
	case r.Error != nil && r.NotRun:
		return nil, &fault.NotRunError{Err: r.Error}
	case r.Error != nil:
		return nil, r.Error
	case r.Words != "":
		return nil, words(r.Words)
	}
	return r.Result, nil
}

// depth is how deep the JSON of a record nests at most: as deep as a server's result, and a little more.
const depth = 72

// atRest is how long what is sealed can be opened. The call itself ends long before.
const atRest = 366 * 24 * time.Hour

// sealPending seals what a call waits for after a round. It opens for this call and this round only. The parameters of
// the call are left out, because the one who opens it has them.
func (p *passage) sealPending(round int, pending *client.Pending) (string, error) {
	own := *pending
	own.Params, own.Answers = json.RawMessage("{}"), nil
	payload, err := json.Marshal(own)
	if err != nil {
		return "", err
	}
	now := time.Now()
	return p.keys.Seal(p.binding(round), payload, now, now.Add(atRest))
}

// openPending opens what sealPending sealed.
func (p *passage) openPending(round int, sealed string) (*client.Pending, error) {
	state, err := p.keys.Open(sealed, p.binding(round), time.Now())
	if refused, ok := errors.AsType[*seal.OpenError](err); ok && refused.Reason == seal.ReasonAudience {
		return nil, taskrun.Held("It waits for a bridge in front of the server that it is for.")
	}
	if err != nil {
		return nil, fmt.Errorf("what the journal has of the server's round %d cannot be opened; were the keys of the bridge "+
			"lost? %w", round, err)
	}
	return readPending(state.Payload)
}

// readPending reads what was sealed.
func readPending(payload []byte) (*client.Pending, error) {
	if err := strictjson.Check(payload, depth); err != nil {
		return nil, fmt.Errorf("what the call waits for: %w", err)
	}
	p := new(client.Pending)
	if err := json.Unmarshal(payload, p); err != nil {
		return nil, fmt.Errorf("what the call waits for: %w", err)
	}
	return p, nil
}

// binding names the round of a call that something is sealed for.
func (p *passage) binding(round int) seal.Binding {
	return seal.Binding{
		Audience: "askback bridge " + p.identity, Principal: p.call.Principal(), Method: p.method,
		Target: p.call.ID(), Arguments: sha256.Sum256(fmt.Append(nil, round)),
	}
}
