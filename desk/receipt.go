package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/stored"
)

// Receipt is the receipt of a decision, with what it has digests of. The command askback receipt verify reads it in
// JSON.
type Receipt struct {
	// JWS states the decision, in compact form, signed by the server: see askback.ReceiptSigner. It has no contents, and
	// may be given to anybody.
	JWS string `json:"receipt"`
	// Salt, Content and Reasons are for people who may read the question. With the receipt and the salt anybody can try
	// out contents and reasons.
	Salt    string            `json:"salt"`
	Content json.RawMessage   `json:"content,omitempty"` // of the form, as it was accepted
	Reasons map[string]string `json:"reasons,omitempty"` // by the names of the voters
}

// ErrNoReceipt reports that a decision has no receipt: the server signs none, or no process has acted upon the decision
// yet.
var ErrNoReceipt = errors.New("the question has no receipt")

// Receipt returns the receipt of a question that people have decided. It takes the same arguments and returns the same
// errors as [Desk.Question], and [ErrNoReceipt].
func (d *Desk) Receipt(ctx context.Context, name, key string, as *Person) (*Receipt, error) {
	receipt, err := d.receipt(ctx, name, key, as)
	if err != nil {
		return nil, fmt.Errorf("desk: read a receipt: %w", err)
	}
	return receipt, nil
}

func (d *Desk) receipt(ctx context.Context, name, key string, as *Person) (*Receipt, error) {
	r, err := d.question(ctx, name, key, as)
	switch {
	case err != nil:
		return nil, err
	case !r.concerns(as):
		return nil, errUnknown
	case r.unreadable != nil:
		return nil, r.unreadable
	case r.decision == nil:
		return nil, ErrNoReceipt
	}
	_, entries, err := d.engine.Journal(ctx, r.Task, -1)
	if err != nil {
		return nil, fmt.Errorf("the journal of the call: %w", err)
	}
	for _, data := range entries {
		e, err := journal.DecodeEntry(data)
		if err != nil {
			return nil, fmt.Errorf("the journal of the call: %w", err)
		}
		if e.Receipt == nil || e.Key != r.asking.Key || !bytes.Equal(e.Digest[:], r.asking.Digest) {
			continue
		}
		receipt := &Receipt{JWS: string(e.Receipt), Salt: stored.Salt(r.Task, r.Key), Content: r.decision.Content}
		for _, by := range e.By {
			if by.Why == "" {
				continue
			}
			if receipt.Reasons == nil {
				receipt.Reasons = make(map[string]string)
			}
			receipt.Reasons[by.Who] = by.Why
		}
		return receipt, nil
	}
	return nil, ErrNoReceipt
}
