package home

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// Stored is the home of a journal in the store of tasks, for one run of its task. It implements [call.Home].
type Stored struct {
	Work *taskrun.Work

	ctx     context.Context // of the run
	journal *journal.Journal

	mu   sync.Mutex
	lost error // the reason why an entry was not recorded, which voids the run
}

// StoredCall is what a task begins with: in the store an object with the members call, can and params.
type StoredCall struct {
	Call   string // the call's secret id
	Can    wire.Capability
	Params []byte // name, arguments and _meta of the request
	Trace  string // the journal's; in the store the member trace, unless it is empty
}

// AppendStoredCall appends the call that a task begins with; request has the checked parameters of the call.
func AppendStoredCall(dst []byte, id, trace string, can wire.Capability, request []byte) []byte {
	dst = wire.AppendString(append(dst, `{"call":`...), id)
	if trace != "" {
		dst = wire.AppendString(append(dst, `,"trace":`...), trace)
	}
	dst = strconv.AppendUint(append(dst, `,"can":`...), uint64(can), 10)
	dst = append(dst, `,"params":{`...)
	separator := ""
	for _, name := range []string{"name", "arguments", "_meta"} {
		if member := strictjson.Get(request, name); member != nil {
			dst = append(append(dst, separator...), `"`+name+`":`...)
			dst, separator = append(dst, member...), ","
		}
	}
	return append(dst, "}}"...)
}

// ReadStoredCall reads what AppendStoredCall wrote. Its Params alias data.
func ReadStoredCall(data []byte) (c StoredCall, err error) {
	if err := strictjson.Check(data, strictjson.MaxDepth); err != nil {
		return c, fmt.Errorf("the stored call: %w", err)
	}
	id, hasID := strictjson.String(strictjson.Get(data, "call"))
	can, err := strconv.ParseUint(string(strictjson.Get(data, "can")), 10, 8)
	params := strictjson.Get(data, "params")
	if !hasID || err != nil || strictjson.TypeOf(params) != strictjson.TypeObject {
		return c, errors.New("the stored call is not laid out as this program stores calls: a newer one may have stored it")
	}
	trace, _ := strictjson.String(strictjson.Get(data, "trace"))
	return StoredCall{id, wire.Capability(can), params, trace}, nil
}

// Open implements [call.Home].
func (s *Stored) Open(ctx context.Context) (*journal.Journal, *call.Outcome, error) {
	s.ctx = ctx
	began, err := ReadStoredCall(s.Work.Call)
	if err != nil {
		return nil, nil, err
	}
	if s.journal, err = DecodeJournal(began.Call, s.Work.Task.Round, s.Work.Entries); err != nil {
		return nil, nil, err
	}
	s.journal.Trace = began.Trace
	return s.journal, nil, nil
}

// Begin implements [call.Home].
func (s *Stored) Begin(run *journal.Run, j *journal.Journal, limits journal.Limits) {
	run.Begin(j, nil, limits)
	run.Commit = s.record
	run.Live = s.ctx.Err // which looks at the lease: the author's context may be derived from it, and end a moment later
}

func (s *Stored) record(ctx context.Context, e *journal.Entry) error {
	err := s.Work.Record(ctx, e.Append(nil))
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost = err
	}
	return err
}

// Suspend implements [call.Home]: the task is parked with the verdict.
func (s *Stored) Suspend(context.Context, *journal.Journal, *call.Outcome) (again bool, err error) {
	return false, nil
}

// End implements [call.Home]: the task ends with the verdict.
func (s *Stored) End(context.Context, *journal.Journal, error) {}

// Verdict returns the verdict of the run for its task. An error says that the run is void.
func (s *Stored) Verdict(out *call.Outcome, err error) (taskrun.Verdict, error) {
	if s.journal == nil {
		return taskrun.Verdict{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return taskrun.Verdict{}, s.lost
	}
	if errors.Is(err, task.ErrLeaseLost) { // by an outside system that was shown the claim
		return taskrun.Verdict{}, err
	}
	v := taskrun.Verdict{Round: s.journal.Round}
	var encoded []byte
	if err == nil && out.Result != nil {
		var members string
		if encoded, members, err = call.EncodeResult(out.Result); err == nil {
			encoded = slices.Concat([]byte("{"+members), encoded[1:])
		}
	}
	switch {
	case err != nil:
		fault := call.Fault(err)
		v.Status, v.Message, v.Outcome = task.Failed, fault.Message, EncodeFault(fault)
		return v, nil
	case encoded != nil:
		v.Status, v.Outcome = task.Completed, encoded
	case len(out.Questions) == 0: // a checkpoint
		v.Status = task.Working
	default:
		open := make([]OpenQuestion, len(out.Questions))
		for i, q := range out.Questions {
			open[i] = OpenQuestion{q.Key, s.journal.Pending[i].Key, q.Digest[:], q.Method, q.Params()}
		}
		v.Status = task.InputRequired
		v.Pending, err = json.Marshal(open)
	}
	return v, err
}

// EncodeFault makes the outcome of a task that failed.
func EncodeFault(fault *jsonrpc.Error) []byte {
	return strictjson.Get(wire.AppendError(nil, nil, fault), "error")
}

// DecodeJournal makes the journal of a task from its entries.
func DecodeJournal(callID string, round int, entries [][]byte) (*journal.Journal, error) {
	j := &journal.Journal{ID: callID, Round: round}
	for i, data := range entries {
		e, err := journal.DecodeEntry(data)
		if err != nil {
			return nil, fmt.Errorf("entry %d of the journal: %w", i, err)
		}
		j.Entries = append(j.Entries, e)
	}
	return j, nil
}

// OpenQuestion is a question that a parked task waits for, as it is stored.
type OpenQuestion struct {
	Wire   string          `json:"wire"`
	Key    string          `json:"key"` // the author's
	Digest []byte          `json:"digest"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// OpenQuestions returns the questions that a task waits for.
func OpenQuestions(t *task.Task) ([]OpenQuestion, error) {
	if len(t.Pending) == 0 {
		return nil, nil
	}
	var open []OpenQuestion
	if err := json.Unmarshal(t.Pending, &open); err != nil {
		return nil, fmt.Errorf("the stored questions: %w", err)
	}
	for _, q := range open {
		if len(q.Digest) != len(journal.Digest{}) {
			return nil, fmt.Errorf("the stored question %q has no digest", q.Wire)
		}
	}
	return open, nil
}
