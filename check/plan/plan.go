// Package plan reads the file in which a user describes a server.
package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// A Plan describes a server, in a file of JSON that a user completes. All of it may be left out.
type Plan struct {
	// Calls say how something is called, by its name; a name that several methods have stands behind its method, as in
	// "prompts/get review".
	Calls map[string]Call `json:"calls,omitempty"`

	// TTL is how long a state is valid, such as "30s". It is waited for if it is at most five minutes.
	TTL Duration `json:"stateTTL,omitempty"`

	Replica   string `json:"replica,omitempty"`   // URL of another instance that shares the server's keys
	Elsewhere string `json:"elsewhere,omitempty"` // URL of a server with keys of its own

	// OneIdentity says that both tokens are of one principal, so that nothing is to be kept apart.
	OneIdentity bool `json:"oneIdentity,omitempty"`
}

// A Call is how a tool, a prompt or a resource is called.
type Call struct {
	Arguments map[string]any            `json:"arguments,omitempty"` // "any text" is a text of the check's own
	UseUp     map[string][]any          `json:"useUp,omitempty"`     // arguments whose values serve one call each
	Answers   map[string]map[string]any `json:"answers,omitempty"`   // the content of forms by the keys of questions
	ToTheEnd  bool                      `json:"toTheEnd"`            // it may be called to its end
	Never     bool                      `json:"never,omitempty"`     // it is not called at all
	Once      bool                      `json:"once,omitempty"`      // a state must not be taken twice
}

// AnyText stands in a plan for an argument that takes any text.
const AnyText = "any text"

// A Duration is a [time.Duration] that is written as in "30s".
type Duration time.Duration

// MarshalText writes the form that [time.Duration.String] has.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what [time.ParseDuration] reads.
func (d *Duration) UnmarshalText(text []byte) error {
	value, err := time.ParseDuration(string(text))
	if err == nil && value < 0 {
		err = fmt.Errorf("%s is negative", text)
	}
	*d = Duration(value)
	return err
}

// Parse reads the file of a plan.
func Parse(data []byte) (p Plan, err error) {
	if err := strictjson.Check(data, 50); err != nil {
		return p, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return p, decoder.Decode(&p)
}
