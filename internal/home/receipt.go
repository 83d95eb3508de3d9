package home

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/task"
)

// Receipts signs the statements of receipts.
type Receipts interface {
	Sign(ctx context.Context, statement []byte) (string, error)
}

// statement is what a receipt states. Package receipt reads it.
type statement struct {
	Version   int       `json:"version"`
	Server    string    `json:"server"`
	Tool      string    `json:"tool"`
	Caller    string    `json:"caller"`
	Task      string    `json:"task"`
	Call      string    `json:"call"`
	Key       string    `json:"key"`
	Shown     string    `json:"shown"`
	Arguments string    `json:"arguments"`
	For       []string  `json:"for"`
	Votes     int       `json:"votes"`
	Asked     time.Time `json:"asked"`
	Deadline  time.Time `json:"deadline,omitzero"`
	Action    string    `json:"action"`
	Content   string    `json:"content,omitempty"`
	Decided   time.Time `json:"decided"`
	Voters    []voter   `json:"voters"`
}

// voter is somebody whose vote made the decision.
type voter struct {
	Who     string    `json:"who"`
	Groups  []string  `json:"groups,omitempty"`
	When    time.Time `json:"when"`
	Channel string    `json:"channel"`
	Reason  string    `json:"reason,omitempty"`
}

// signTime bounds the time in which a receipt is signed.
const signTime = 10 * time.Second

// sign returns the receipt of a decision. The same decision has the same statement, so a receipt whose record was lost
// is signed again as it was.
func (s *Stored) sign(key string, q *task.Question, made *stored.Decision) ([]byte, error) {
	asking, err := stored.DecodeAsking(q.Content)
	if err != nil {
		return nil, err
	}
	ballot, err := stored.DecodeBallot(q.Votes)
	if err != nil {
		return nil, err
	}
	arguments := s.request.Params.Arguments
	if arguments == nil {
		arguments = []byte("{}")
	}
	digest := sha256.Sum256(strictjson.AppendJCS(nil, arguments))
	salt := stored.Salt(s.work.Task.ID, q.Key)
	state := statement{
		Version: 1, Server: s.desk.Server, Tool: s.work.Task.Target, Caller: s.work.Task.Principal,
		Task: task.Name(s.work.Task.ID), Call: asking.Call, Key: key, Shown: hex.EncodeToString(asking.Shown),
		Arguments: hex.EncodeToString(digest[:]), For: q.For, Votes: asking.Votes, Asked: q.Asked.UTC(),
		Deadline: q.Deadline.UTC(), Action: made.Action, Decided: made.When.UTC(), Voters: []voter{},
	}
	if q.Deadline.IsZero() {
		state.Deadline = time.Time{}
	}
	if made.Content != nil {
		state.Content = stored.Salted(salt, "content", strictjson.AppendJCS(nil, made.Content))
	}
	for _, by := range made.By {
		v := voter{Who: by.Who, When: by.When.UTC(), Channel: by.Channel}
		if by.Why != "" {
			v.Reason = stored.Salted(salt, "reason of "+by.Who, []byte(by.Why))
		}
		for _, vote := range ballot.Votes {
			if vote.Who == by.Who && vote.When.Equal(by.When) {
				v.Groups = vote.Groups
			}
		}
		state.Voters = append(state.Voters, v)
	}
	data, err := json.Marshal(state)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, signTime)
	defer cancel()
	var receipt string
	err = fault.Safely(func() (err error) {
		receipt, err = s.desk.Receipts.Sign(ctx, data)
		return err
	})
	if err == nil && (receipt == "" || len(receipt) > stored.MostReceipt) {
		err = fmt.Errorf("it has %d bytes: want 1 to %d", len(receipt), stored.MostReceipt)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("signing the receipt of the question %q: %w", key, err), context.Cause(ctx))
	}
	return []byte(receipt), nil
}
