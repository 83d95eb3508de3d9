package slacktest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

const text = `{"type":"plain_text","text":"x"}`

// What Slack refuses, the server refuses.
func TestBlocks(t *testing.T) {
	long := func(n int) string { return `{"type":"plain_text","text":"` + strings.Repeat("x", n) + `"}` }
	button := `{"type":"button","action_id":"a","value":"1","text":` + text + `}`
	input := func(element string) string { return `{"type":"input","label":` + text + `,"element":` + element + `}` }
	for name, tt := range map[string]struct {
		blocks string
		view   bool
		ok     bool
	}{
		"a section":        {`{"type":"section","text":` + long(3000) + `}`, false, true},
		"a long section":   {`{"type":"section","text":` + long(3001) + `}`, false, false},
		"a header":         {`{"type":"header","text":` + long(150) + `}`, false, true},
		"a long header":    {`{"type":"header","text":` + long(151) + `}`, false, false},
		"an empty text":    {`{"type":"section","text":` + long(0) + `}`, false, false},
		"nothing":          {`{"type":"section"}`, false, false},
		"an unknown block": {`{"type":"banner","text":` + text + `}`, false, false},
		"an unknown name":  {`{"type":"section","txt":` + text + `}`, false, false},
		"styled header":    {`{"type":"header","text":{"type":"mrkdwn","text":"x"}}`, false, false},
		"buttons":          {`{"type":"actions","elements":[` + button + `]}`, false, true},
		"equal buttons":    {`{"type":"actions","elements":[` + button + `,` + button + `]}`, false, false},
		"a long value": {`{"type":"actions","elements":[` +
			strings.Replace(button, `"1"`, `"`+strings.Repeat("x", 2001)+`"`, 1) +
			`]}`, false, false},
		"eleven fields": {`{"type":"section","fields":[` + strings.Repeat(text+",", 10) + text + `]}`, false, false},
		"51 blocks": {strings.Repeat(`{"type":"section","text":`+text+`},`, 50) + `{"type":"section","text":` + text + `}`,
			false, false},
		"an input in a message": {input(`{"type":"plain_text_input","action_id":"v"}`), false, false},
		"an input":              {input(`{"type":"plain_text_input","action_id":"v"}`), true, true},
		"no options":            {input(`{"type":"static_select","action_id":"v","options":[]}`), true, false},
		"a long option": {input(`{"type":"static_select","action_id":"v","options":[{"value":"1","text":` + long(76) + `}]}`),
			true, false},
	} {
		if err := checkBlocks(json.RawMessage("["+tt.blocks+"]"), tt.view); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, view := range map[string]string{
		"no title":     `{"type":"modal","blocks":[]}`,
		"a long title": `{"type":"modal","title":` + long(25) + `,"blocks":[]}`,
		"no submit": `{"type":"modal","title":` + text + `,"blocks":[` +
			input(`{"type":"plain_text_input","action_id":"v"}`) +
			`]}`,
	} {
		if checkView(json.RawMessage(view)) == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestMethods(t *testing.T) {
	s := New(Options{Token: "xoxb-1", SigningSecret: "secret", Channels: []string{"C1"}})
	call := func(method, args string) string {
		r := httptest.NewRequest(http.MethodPost, "/api/"+method, strings.NewReader(args))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		var answer struct{ Error string }
		expect.Check(t, json.Unmarshal(w.Body.Bytes(), &answer))
		return answer.Error
	}
	blocks := url.QueryEscape(`[{"type":"divider "}]`)
	for args, want := range map[string]string{
		"chat.postMessage channel=C1&text=x":                               "not_authed",
		"chat.postMessage token=xoxb-2&channel=C1&text=x":                  "invalid_auth",
		"chat.postMessage token=xoxb-1&channel=C2&text=x":                  "channel_not_found",
		"chat.postMessage token=xoxb-1&channel=C1":                         "no_text",
		"chat.postMessage token=xoxb-1&channel=C1&text=x&colour=red":       "invalid_arguments",
		"chat.postMessage token=xoxb-1&channel=C1&text=x&blocks=" + blocks: "invalid_blocks",
		"chat.postMessage token=xoxb-1&channel=C1&text=x":                  "",
		"chat.update token=xoxb-1&channel=C1&text=x&ts=1.1":                "message_not_found",
		"chat.forget token=xoxb-1":                                         "unknown_method",
		"views.open token=xoxb-1&trigger_id=1&view={}":                     "invalid_trigger_id",
	} {
		if method, rest, _ := strings.Cut(args, " "); call(method, rest) != want {
			t.Errorf("%s: want %q", args, want)
		}
	}
}
