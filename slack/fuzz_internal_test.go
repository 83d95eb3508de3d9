package slack

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/askback-mcp/askback/desk/chat"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Whatever Slack has signed is a click of somebody, or nothing, and a form amounts to sound JSON.
func FuzzReceive(f *testing.F) {
	f.Add(`{"type":"block_actions","team":{"id":"T1"},"user":{"id":"U1"},"actions":[{"action_id":"askback_accept",` +
		`"value":"{\"n\":\"NAME\",\"k\":\"pay\"}"}],"container":{"channel_id":"C1","message_ts":"1.2"}}`)
	f.Add(`{"type":"view_submission","user":{"id":"U1","team_id":"T2"},"view":{"callback_id":"askback_answer",` +
		`"private_metadata":"{\"n\":\"NAME\",\"k\":\"pay\",\"a\":\"accept\",\"f\":[{\"n\":\"x\",\"t\":\"number\"},` +
		`{\"n\":\"x\",\"t\":\"many\"},{\"n\":\"y\",\"t\":\"boolean\"}]}","state":{"values":{"v0":{"value":{"value":"1e3"}},` +
		`"v1":{"value":{"selected_options":[{"value":"\ud800"}]}},"reason":{"value":{"value":null}}}}}}`)
	f.Add(`{"type":"view_submission","view":{"callback_id":"askback_answer","private_metadata":"[]"}}`)
	f.Add(`null`)
	const secret = "a secret of sixteen"
	s := expect.Must(New(Options{Token: "xoxb-token", SigningSecret: secret}))(f)
	f.Fuzz(func(t *testing.T, payload string) {
		body := url.Values{"payload": {payload}}.Encode()
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		sent := fmt.Sprint(time.Now().Unix())
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "v0:%s:%s", sent, body)
		req.Header.Set("X-Slack-Request-Timestamp", sent)
		req.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
		click, err := s.Receive(req)
		if err != nil || click == nil {
			return
		}
		if click.ID == "" || click.Reply == nil {
			t.Errorf("the click is %+v", click)
		}
		if c := click.Answer.Content; c != nil && !bytes.HasPrefix(c, []byte("{")) {
			t.Errorf("the content is %q", c)
		}
	})
}

// A body that nobody signed is read, and never decoded.
func FuzzUnsigned(f *testing.F) {
	f.Add("v0=00", "1", "payload={}")
	f.Add("v0="+strings.Repeat("0", 64), "0", "")
	s := expect.Must(New(Options{Token: "xoxb-token", SigningSecret: "a secret of sixteen"}))(f)
	f.Fuzz(func(t *testing.T, signature, sent, body string) {
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		req.Header.Set("X-Slack-Request-Timestamp", sent)
		req.Header.Set("X-Slack-Signature", signature)
		if click, err := s.Receive(req); err == nil || click != nil {
			t.Errorf("taken: %+v, %v", click, err)
		}
	})
}

// What is cut fits by each way in which Slack may count, and is the beginning of the text.
func FuzzCut(f *testing.F) {
	f.Add("😀<&>ü", 5)
	f.Add("", 1)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if !utf8.ValidString(text) || most < 1 || most > 3000 {
			return
		}
		got := cut(text, most)
		if n := len(utf16.Encode([]rune(escape(got)))); n > most {
			t.Errorf("%q has %d characters, and %d are allowed", got, n, most)
		}
		if !strings.HasPrefix(text, strings.TrimSuffix(got, "…")) {
			t.Errorf("%q is not the beginning of %q", got, text)
		}
	})
}

// A form that Slack cannot show whole is not shown at all.
func TestFormsOfThePage(t *testing.T) {
	const simple = `{"type":"object","properties":{"a":{"type":"string"}}}`
	for name, tt := range map[string]struct {
		schema string
		values string
		ok     bool
	}{
		"simple":         {simple, "", true},
		"simple, filled": {simple, `{"a":"x"}`, true},
		"a secret":       {`{"type":"object","properties":{"password":{"type":"string"}}}`, "", false},
		"a time":         {`{"type":"object","properties":{"a":{"type":"string","format":"date-time"}}}`, "", false},
		"a long value":   {simple, `{"a":"` + strings.Repeat("x", 3001) + `"}`, false},
		"turned around":  {simple, `{"a":"\u202eecila"}`, false},
		"a long choice": {`{"type":"object","properties":{"a":{"type":"string","enum":["` + strings.Repeat("x", 151) +
			`"]}}}`, "", false},
		"equal words": {`{"type":"object","properties":{"a":{"type":"string","enum":["` + strings.Repeat("x", 80) + `1","` +
			strings.Repeat("x", 80) + `2"]}}}`, "", false},
		"not a form": {`{"type":"array"}`, "", false},
	} {
		m := &chat.Message{Form: []byte(tt.schema)}
		if tt.values != "" {
			m.Values = []byte(tt.values)
		}
		if _, ok := formOf(m, reference{}); ok != tt.ok {
			t.Errorf("%s: %v", name, ok)
		}
	}
	var many strings.Builder
	for i := range 21 {
		fmt.Fprintf(&many, `,"f%d":{"type":"boolean"}`, i)
	}
	m := &chat.Message{Form: []byte(`{"type":"object","properties":{` + many.String()[1:] + `}}`)}
	if _, ok := formOf(m, reference{}); ok {
		t.Error("21 fields are shown")
	}
	fields := []value{{"a", "number"}, {"b", "boolean"}, {"c", "text"}, {"d", "one"}, {"e", "many"}}
	one, words := "0x1", "tr\"ue"
	got := contentOf(fields, map[string]map[string]entry{"v0": {"value": {Value: &one}}, "v1": {"value": {Value: &one}},
		"v2": {"value": {Value: &words}}, "v4": {"value": {Selected: []option{{"x"}, {"y"}}}}})
	if want := `{"a":"0x1","c":"tr\"ue","e":["x","y"]}`; string(got) != want || strictjson.Check(got, 9) != nil {
		t.Errorf("got %s, want %s", got, want)
	}
}
