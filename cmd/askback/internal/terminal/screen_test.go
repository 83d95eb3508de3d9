package terminal

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode"

	tea "charm.land/bubbletea/v2"
)

// FuzzForm lets a server say anything, and a person press anything.
func FuzzForm(f *testing.F) {
	f.Add("tracker", "How was this bug resolved?", []byte(bug), "\x1b\t\rabc")
	f.Add(evil, evil, []byte(`{"type":"object","properties":{"\u001b[2J":{"type":"string","title":"\u202e",`+
		`"default":"\u001b"}}}`), "\r\r")
	f.Add("", evil, []byte(`{"type":"object","properties":{"a":{"type":"string","default":"\u001b\u202e"}}}`), "x\x1b\r\r")
	f.Add("", "", []byte(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["",`+
		`"\u200b"]}}}}`), "  \r")
	f.Add("", "", []byte(`{"type":"object","properties":{"a":{"type":"string","oneOf":[null]}}}`), "x\r")
	f.Add("", "", []byte(`{"type":"object","properties":{"a":null,"b":{"type":"array","items":null}}}`), "x\r")
	f.Add("", "", []byte(`{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[null]}}}}`), " \r")
	f.Fuzz(func(t *testing.T, server, message string, schema []byte, keys string) {
		p := &prompt{server: serverName(server), asks: "asks:", body: messageBlocks(message), accept: "Send", done: "Sent."}
		fields, err := fieldsOf(schema)
		if err != nil {
			p.body = append(p.body, block{kind: ours, text: line(err.Error(), maxMessage)})
			p.accept = ""
		}
		p.fields, p.review = fields, len(fields) > 1
		s := newScreen(p)
		s.Init()
		looks(t, s)
		for i, key := range keys {
			if i == 100 {
				break
			}
			msg := tea.KeyPressMsg{Code: key}
			if unicode.IsPrint(key) {
				msg.Text = string(key)
			}
			s.Update(msg)
			looks(t, s)
		}
		if !s.over {
			return
		}
		harmless(t, s.record())
		if s.result != accept {
			return
		}
		// What the person agreed to is what the schema allows.
		for _, f := range fields {
			if problem := f.problem(); problem != "" {
				t.Errorf("%q was accepted: %s", f.Name, problem)
			}
			if value, err := f.value(); err != nil {
				t.Errorf("%q: %v", f.Name, err)
			} else if _, err := json.Marshal(value); err != nil {
				t.Errorf("%q: %v", f.Name, err)
			}
		}
	})
}

var style = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// looks draws the screen, on which nothing may act on a terminal.
func looks(t *testing.T, s *screen) {
	t.Helper()
	harmless(t, s.View().Content)
}

func harmless(t *testing.T, drawn string) {
	t.Helper()
	plain := style.ReplaceAllString(drawn, "")
	if i := strings.IndexFunc(plain, func(r rune) bool {
		return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
	}); i >= 0 {
		t.Errorf("%q is on the screen", plain[i:min(len(plain), i+10)])
	}
}
