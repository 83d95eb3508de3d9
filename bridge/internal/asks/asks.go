// Package asks puts the questions of a server behind the bridge to the host, or to people at the desk.
package asks

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/internal/object"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/raw"
)

// Asker asks the questions of a server's rounds, each under a key of its own: a server may ask the same question again
// in a later round, and then wants another answer. It is for one goroutine.
type Asker struct {
	call *askback.Call
	used map[string]bool // keys
	// answers are those that this run has read, by key and question. A call that is made again in one run asks again.
	answers map[string]json.RawMessage
}

// New returns the asker of one run of the handler of a call.
func New(call *askback.Call) Asker { return Asker{call: call} }

// Mark returns a function after which the run asks as it did from here on: equal questions then find their answers.
func (a *Asker) Mark() (back func()) {
	used := maps.Clone(a.used)
	return func() { a.used = maps.Clone(used) }
}

// Ask asks all questions of a round together, and returns the answers by the server's keys.
func (a *Asker) Ask(questions []*client.Question) (map[string]json.RawMessage, error) {
	answers := make(map[string]json.RawMessage, len(questions))
	var open []error
	for _, q := range questions {
		answer, err := a.AskOne(a.Key(q.Key), q)
		if err != nil {
			open = append(open, err)
		}
		answers[q.Key] = answer
	}
	return answers, errors.Join(open...)
}

// Key returns the server's key, or another one if the call has used it before, or if it is the bridge's to use.
func (a *Asker) Key(key string) string {
	if strings.HasPrefix(key, ownKeys) {
		key = "server " + key
	}
	return a.Next(key)
}

// ownKeys begins the keys of the questions that the bridge asks itself.
const ownKeys = "bridge_"

// Next returns a key, or another one if the call has used it before.
func (a *Asker) Next(key string) string {
	own := key
	for i := 2; a.used[own]; i++ {
		own = fmt.Sprintf("%s (%d)", key, i)
	}
	if a.used == nil {
		a.used = make(map[string]bool)
	}
	a.used[own] = true
	return own
}

// AskOne asks one question, and returns the answer as the server gets it.
func (a *Asker) AskOne(key string, q *client.Question) (json.RawMessage, error) {
	question := fmt.Sprintf("%q %q %q %q %s", key, q.Method, q.Message, q.URL, q.Schema)
	answer, err := a.put(key, q)
	if had, read := a.answers[question]; read && errors.Is(err, journal.ErrAskedTwice) {
		return had, nil
	}
	if err == nil {
		if a.answers == nil {
			a.answers = make(map[string]json.RawMessage)
		}
		a.answers[question] = answer
	}
	return answer, err
}

func (a *Asker) put(key string, q *client.Question) (json.RawMessage, error) {
	message := q.Message
	if strings.TrimSpace(message) == "" {
		message = "The server asks this without a message."
	}
	switch {
	case q.Method == input.MethodElicit && q.URL != "":
		return elicited(nil, askback.ElicitURL(a.call, key, message, q.URL))
	case q.Method == input.MethodElicit:
		form := askback.Question{Message: message, Schema: q.Schema}
		content, err := askback.ElicitWith[raw.Content](a.call, key, form)
		return elicited(json.RawMessage(content), err)
	case q.Method == input.MethodCreateMessage:
		params := new(mcp.CreateMessageWithToolsParams)
		if err := json.Unmarshal(q.Params, params); err != nil {
			return nil, fmt.Errorf("the server asks the model something that is malformed (%q): %w", q.Key, err)
		}
		asked := object.Copy(q.Params, func(name string, value []byte) []byte {
			if name == "_meta" {
				return nil
			}
			return value
		})
		raw.InPlace(params, json.RawMessage(asked.End()))
		answer, err := askback.Sample(a.call, key, params)
		if err != nil {
			return nil, err
		}
		return raw.Of[json.RawMessage](answer), nil
	case q.Method == input.MethodListRoots:
		roots, err := askback.Roots(a.call, key)
		if err != nil {
			return nil, err
		}
		return json.Marshal(&mcp.ListRootsResult{Roots: append([]*mcp.Root{}, roots...)})
	}
	return nil, fmt.Errorf("the server asks %q by the method %.80q, which the protocol does not have", q.Key, q.Method)
}

// elicited is the answer to an elicitation. A person who declines, or dismisses the question, has answered.
func elicited(content json.RawMessage, err error) (json.RawMessage, error) {
	if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
		return json.Marshal(map[string]string{"action": declined.Action})
	}
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"action": "accept"}
	if content != nil {
		answer["content"] = content
	}
	return json.Marshal(answer)
}
