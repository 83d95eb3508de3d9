package check

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/rawclient/transcript"
)

// recorded is a request of a call and what came, for a transcript.
type recorded struct {
	request request
	status  int
	reply   *reply
	variant string            // the alteration of the state
	from    *string           // the state, or the ID of a task, that was altered
	events  []json.RawMessage // that came on a stream that was open
}

func (c *call) record(q request, p *reply, status int) {
	c.steps = append(c.steps, recorded{request: q, reply: p, status: status})
}

// servers are the names of servers in a transcript.
var servers = map[string]string{"": "A", "replica": "B", "elsewhere": "C"}

// transcript writes steps as 'askback replay' reads them. States and the IDs of tasks are placeholders, and identities
// are names. The last response has the effect of the attack. It is empty if the texts of a server cannot stand in a
// transcript.
func (r *run) transcript(p corpus.Probe, steps []recorded) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Title: %s\n", p.Title)
	for _, at := range []string{"", "replica", "elsewhere"} {
		if at == "" || slices.ContainsFunc(steps, func(s recorded) bool { return s.request.at == at }) {
			fmt.Fprintf(&b, "Server: %s\n", servers[at])
		}
	}
	fmt.Fprintf(&b, "\n== %s\n", p.ID)
	names := map[string]string{} // the placeholders of states, and of the IDs of tasks
	for i, s := range steps {
		how, headers, body := s.sent(names, i+1)
		fmt.Fprintf(&b, "\n--> %s%s\n", servers[s.request.at], how)
		if s.request.as != "" {
			fmt.Fprintf(&b, "As: %s\n", s.request.as)
		}
		fmt.Fprintf(&b, "%s%s\n<-- %d%s\n", headers, body, s.status, s.within())
		switch {
		case s.ofTask():
			if s.request.method == "tools/call" {
				names[s.reply.taskID] = fmt.Sprintf("task%d", i+1)
			}
			b.WriteString(s.expectedOfTask(names, i == len(steps)-1))
		case s.reply.state != nil:
			names[*s.reply.state] = fmt.Sprintf("state%d", i+1)
			fmt.Fprintf(&b, `{"result":{"resultType":"input_required","requestState":"{{state%d}}","...":"..."},`+
				`"...":"..."}`, i+1)
		case s.reply.class == refused && s.reply.result == nil:
			b.WriteString(`{"error":"{{_}}","...":"..."}`)
		default:
			b.WriteString(s.reply.expected(i == len(steps)-1))
		}
		b.WriteByte('\n')
	}
	if _, err := transcript.Parse(p.ID, []byte(b.String())); err != nil {
		return ""
	}
	return b.String()
}

// sent is how a transcript sends the request of a step: a word, the headers that it does not make of the body, and the
// body.
func (s recorded) sent(names map[string]string, id int) (how, headers, body string) {
	h := map[string]string{}
	if s.request.body == nil {
		text, _ := json.Marshal(rename(s, names, id)) // the parts are JSON
		body = string(text)
	} else if text, placeholders := s.request.body.template(); placeholders {
		body = text
	} else {
		how, body = " raw", text
		h["Mcp-Protocol-Version"] = rawclient.Modern
		for name := range mirror(s.request) {
			h[name] = mirror(s.request).Get(name)
		}
		if !utf8.ValidString(text) {
			how, body = " hex", hex.EncodeToString([]byte(text))
		}
	}
	maps.Copy(h, s.request.headers)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		headers += strings.TrimSpace(name+": "+h[name]) + "\n"
	}
	return how, headers, body
}

// expected is what a transcript expects of a response that ends a call: its type, and of the last response the content
// as well.
func (p *reply) expected(whole bool) string {
	var result map[string]json.RawMessage
	_ = json.Unmarshal(p.result, &result) // it was read before
	members := []string{"resultType", "isError"}
	if whole && !changing.MatchString(p.raw) && !strings.Contains(p.raw, "{{") { // they would begin a placeholder
		members = append(members, "content", "messages", "contents")
	}
	want := map[string]any{"...": "..."}
	for _, member := range members {
		if value, ok := result[member]; ok {
			want[member] = value
		}
	}
	b, _ := json.Marshal(map[string]any{"result": want, "...": "..."}) // the parts are JSON
	return string(b)
}

// rename is the message of a step, with placeholders for the states.
func rename(s recorded, names map[string]string, id int) map[string]any {
	m := message(s.request, id)
	params, _ := m["params"].(map[string]any)
	if state, ok := params["requestState"].(string); ok {
		switch name := names[state]; {
		case name != "":
			params["requestState"] = "{{" + name + "}}"
		case s.from != nil && names[*s.from] != "":
			params["requestState"] = "{{" + names[*s.from] + ":" + s.variant + "}}"
		}
	}
	renameTask(s, params, names)
	return m
}
