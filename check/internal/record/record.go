// Package record writes the transcript of a finding, which shows it again.
package record

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/rawclient/transcript"
)

// servers are the names of servers in a transcript.
var servers = map[string]string{"": "A", "replica": "B", "elsewhere": "C"}

// Transcript writes steps as 'askback replay' reads them. States and the IDs of tasks are placeholders, and identities
// are names. The last response has the effect of the attack. It is empty if the texts of a server cannot stand in a
// transcript.
func Transcript(p corpus.Probe, steps []talk.Exchange) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Title: %s\n", p.Title)
	for _, at := range []string{"", "replica", "elsewhere"} {
		if at == "" || slices.ContainsFunc(steps, func(s talk.Exchange) bool { return s.Request.At == at }) {
			fmt.Fprintf(&b, "Server: %s\n", servers[at])
		}
	}
	fmt.Fprintf(&b, "\n== %s\n", p.ID)
	names := map[string]string{} // the placeholders of states, and of the IDs of tasks
	for i, s := range steps {
		how, headers, body := sent(s, names, i+1)
		fmt.Fprintf(&b, "\n--> %s%s\n", servers[s.Request.At], how)
		if s.Request.As != "" {
			fmt.Fprintf(&b, "As: %s\n", s.Request.As)
		}
		fmt.Fprintf(&b, "%s%s\n<-- %d%s\n", headers, body, s.Status, within(s))
		switch {
		case ofTask(s):
			if s.Request.Method == "tools/call" {
				names[s.Reply.TaskID] = fmt.Sprintf("task%d", i+1)
			}
			b.WriteString(expectedOfTask(s, names, i == len(steps)-1))
		case s.Reply.State != nil:
			names[*s.Reply.State] = fmt.Sprintf("state%d", i+1)
			fmt.Fprintf(&b, `{"result":{"resultType":"input_required","requestState":"{{state%d}}","...":"..."},`+
				`"...":"..."}`, i+1)
		case s.Reply.Class == talk.Refused && s.Reply.Result == nil:
			b.WriteString(`{"error":"{{_}}","...":"..."}`)
		default:
			b.WriteString(expected(s.Reply, i == len(steps)-1))
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
func sent(s talk.Exchange, names map[string]string, id int) (how, headers, body string) {
	h := map[string]string{}
	if s.Request.Body == nil {
		text, _ := json.Marshal(rename(s, names, id)) // the parts are JSON
		body = string(text)
	} else if text, placeholders := s.Request.Body.Template(); placeholders {
		body = text
	} else {
		how, body = " raw", text
		h["Mcp-Protocol-Version"] = rawclient.Modern
		for name := range s.Request.Mirror() {
			h[name] = s.Request.Mirror().Get(name)
		}
		if !utf8.ValidString(text) {
			how, body = " hex", hex.EncodeToString([]byte(text))
		}
	}
	maps.Copy(h, s.Request.Headers)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		headers += strings.TrimSpace(name+": "+h[name]) + "\n"
	}
	return how, headers, body
}

// expected returns the response that ends a call, for a comparison: its type, and of the last response the content
// as well.
func expected(p *talk.Reply, whole bool) string {
	var result map[string]json.RawMessage
	_ = json.Unmarshal(p.Result, &result) // it was read before
	members := []string{"resultType", "isError"}
	if whole && !talk.Changing.MatchString(p.Raw) && !strings.Contains(p.Raw, "{{") { // they would begin a placeholder
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
func rename(s talk.Exchange, names map[string]string, id int) map[string]any {
	m := s.Request.Message(id)
	params, _ := m["params"].(map[string]any)
	if state, ok := params["requestState"].(string); ok {
		switch name := names[state]; {
		case name != "":
			params["requestState"] = "{{" + name + "}}"
		case s.From != nil && names[*s.From] != "":
			params["requestState"] = "{{" + names[*s.From] + ":" + s.Variant + "}}"
		}
	}
	renameTask(s, params, names)
	return m
}
