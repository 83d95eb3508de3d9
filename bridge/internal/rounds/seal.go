package rounds

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/bridge/internal/outcome"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/seal"
)

// AtRest is how long what is sealed can be opened. The call itself ends long before.
const AtRest = 366 * 24 * time.Hour

// seal seals what a call waits for after a round. It opens for this call and this round only. The parameters of the
// call are left out, because the one who opens it has them.
func (p *pass) seal(ctx context.Context, round int, pending *client.Pending) (string, error) {
	own := *pending
	own.Params, own.Answers = json.RawMessage("{}"), nil
	payload, err := json.Marshal(own)
	if err != nil {
		return "", err
	}
	now := clock.Now(ctx)
	return p.way.Keys.Seal(p.binding(round), payload, now, now.Add(AtRest))
}

// ahead is how far the clock of the bridge that sealed something may be ahead of the clock of the one that opens it.
// What is sealed waits in a store, for which the clocks of bridges do not count.
const ahead = 24 * time.Hour

// open opens what seal sealed.
func (p *pass) open(ctx context.Context, round int, sealed string) (*client.Pending, error) {
	state, err := p.way.Keys.Open(sealed, p.binding(round), clock.Now(ctx).Add(ahead))
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
	if err := strictjson.Check(payload, outcome.Depth); err != nil {
		return nil, fmt.Errorf("what the call waits for: %w", err)
	}
	p := new(client.Pending)
	if err := json.Unmarshal(payload, p); err != nil {
		return nil, fmt.Errorf("what the call waits for: %w", err)
	}
	return p, nil
}

// binding names the round of a call that something is sealed for.
func (p *pass) binding(round int) seal.Binding {
	return seal.Binding{
		Audience: "askback bridge " + p.Identity, Principal: p.Host.Principal(), Method: p.Method,
		Target: p.Host.ID(), Arguments: sha256.Sum256(fmt.Append(nil, round)),
	}
}
