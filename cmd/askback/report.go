package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/seal"
)

// report is the output of inspect. Much of a state comes from clients, so values are quoted, or are JSON in which nothing
// acts on a terminal.
type report struct {
	seal.Visible
	state   *seal.State      // nil without keys
	journal *journal.Journal // nil if the payload is not a journal
	hint    string           // shown in the text form only
}

func newReport(visible seal.Visible, state *seal.State) *report {
	r := &report{Visible: visible, state: state}
	// The payload of a server that uses package seal alone is not a journal.
	r.journal, _ = journal.Decode(state.Payload)
	return r
}

var kinds = map[journal.Kind]string{
	journal.Answer:     "answer",
	journal.Unread:     "unread answer",
	journal.Step:       "step",
	journal.Checkpoint: "checkpoint",
	journal.Delivered:  "used key",
}

func (r *report) text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "format     %s\n", r.Version)
	fmt.Fprintf(&b, "key        %s\n", r.KeyID)
	fmt.Fprintf(&b, "id         %s\n", r.ID)
	fmt.Fprintf(&b, "size       %d bytes\n", r.Size)
	if s := r.state; s != nil {
		fmt.Fprintf(&b, "issued     %s\n", moment(s.Issued, now, ""))
		fmt.Fprintf(&b, "expires    %s\n", moment(s.Expires, now, "expired "))
		fmt.Fprintf(&b, "\nbound to\n")
		fmt.Fprintf(&b, "  audience   %q\n", s.Binding.Audience)
		fmt.Fprintf(&b, "  method     %q\n", s.Binding.Method)
		fmt.Fprintf(&b, "  target     %q\n", s.Binding.Target)
		fmt.Fprintf(&b, "  arguments  digest %x\n", s.Binding.Arguments)
		if s.Binding.Principal == "" {
			fmt.Fprintf(&b, "  principal  anonymous\n")
		} else {
			fmt.Fprintf(&b, "  principal  %q\n", s.Binding.Principal)
		}
		if r.journal != nil {
			r.call(&b, now)
		} else if sum, ok := journal.DecodeReference(s.Payload); ok {
			fmt.Fprintf(&b, "\nthe journal is in the server's store (States.Overflow)\n  %x\n", sum)
		} else {
			fmt.Fprintf(&b, "\npayload, not a journal that this release knows\n  %q\n", s.Payload)
		}
	}
	if r.hint != "" {
		fmt.Fprintf(&b, "\n%s", r.hint)
	}
	return b.String()
}

func (r *report) call(b *strings.Builder, now time.Time) {
	j := r.journal
	fmt.Fprintf(b, "\ncall\n")
	fmt.Fprintf(b, "  id       %q\n", j.ID)
	fmt.Fprintf(b, "  started  %s\n", moment(j.Started, now, ""))
	fmt.Fprintf(b, "  rounds   %d so far\n", j.Round)

	fmt.Fprintf(b, "\npending questions\n")
	for _, q := range j.Pending {
		fmt.Fprintf(b, "  %q  digest %x", q.Key, q.Digest)
		if q.Wire != q.Key {
			fmt.Fprintf(b, "  sent as %q", q.Wire)
		}
		fmt.Fprintln(b)
	}
	if len(j.Pending) == 0 {
		fmt.Fprintf(b, "  none\n")
	}

	fmt.Fprintf(b, "\njournal\n")
	for _, e := range j.Entries {
		fmt.Fprintf(b, "  %s %q", kinds[e.Kind], e.Key)
		if e.Digest != (journal.Digest{}) {
			fmt.Fprintf(b, "  digest %x", e.Digest)
		}
		fmt.Fprintln(b)
		if e.Kind != journal.Checkpoint && e.Kind != journal.Delivered {
			fmt.Fprintf(b, "    %s\n", value(e.Value))
		}
	}
	if j.Manual != "" {
		fmt.Fprintf(b, "  the handler's own state\n    %s\n", value([]byte(j.Manual)))
	}
	if len(j.Entries) == 0 && j.Manual == "" {
		fmt.Fprintf(b, "  empty\n")
	}
}

// value shows a recorded value: indented if it is JSON, otherwise quoted.
func value(raw []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "    ", "  "); err != nil {
		return strconv.Quote(string(raw))
	}
	return inert(b.Bytes())
}

func (r *report) json() (string, error) {
	type question struct {
		Key    string `json:"key"`
		Wire   string `json:"wire"`
		Digest string `json:"digest"`
	}
	type entry struct {
		Kind   string          `json:"kind"`
		Key    string          `json:"key"`
		Digest string          `json:"digest,omitempty"`
		Value  json.RawMessage `json:"value,omitempty"`
		Base64 []byte          `json:"base64,omitempty"` // a value that is not JSON
	}
	type call struct {
		ID      string     `json:"id"`
		Started time.Time  `json:"started"`
		Rounds  int        `json:"rounds"`
		Pending []question `json:"pending"`
		Journal []entry    `json:"journal"`
		Manual  string     `json:"manual,omitempty"`
	}
	type binding struct {
		Audience  string `json:"audience"`
		Method    string `json:"method"`
		Target    string `json:"target"`
		Arguments string `json:"arguments"`
		Principal string `json:"principal"`
	}
	out := struct {
		Format  string     `json:"format"`
		Key     string     `json:"key"`
		ID      string     `json:"id"`
		Size    int        `json:"size"`
		Issued  *time.Time `json:"issued,omitempty"`
		Expires *time.Time `json:"expires,omitempty"`
		Binding *binding   `json:"binding,omitempty"`
		Call    *call      `json:"call,omitempty"`
		Payload []byte     `json:"payload,omitempty"` // base64, if it is not a journal
	}{Format: r.Version, Key: r.KeyID, ID: r.ID, Size: r.Size}

	if s := r.state; s != nil {
		out.Issued, out.Expires = &s.Issued, &s.Expires
		out.Binding = &binding{s.Binding.Audience, s.Binding.Method, s.Binding.Target, hex.EncodeToString(s.Binding.Arguments[:]), s.Binding.Principal}
		out.Payload = s.Payload
	}
	if j := r.journal; j != nil {
		out.Payload = nil
		out.Call = &call{ID: j.ID, Started: j.Started.UTC(), Rounds: j.Round, Pending: []question{}, Journal: []entry{}, Manual: j.Manual}
		for _, q := range j.Pending {
			out.Call.Pending = append(out.Call.Pending, question{q.Key, q.Wire, hex.EncodeToString(q.Digest[:])})
		}
		for _, e := range j.Entries {
			to := entry{Kind: kinds[e.Kind], Key: e.Key}
			if e.Digest != (journal.Digest{}) {
				to.Digest = hex.EncodeToString(e.Digest[:])
			}
			if json.Valid(e.Value) {
				to.Value = e.Value
			} else {
				to.Base64 = e.Value
			}
			out.Call.Journal = append(out.Call.Journal, to)
		}
	}
	return indentedJSON(out)
}
