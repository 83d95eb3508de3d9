package check

import (
	"bytes"
	"compress/gzip"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/redact"
	"github.com/askback-mcp/askback/check/report"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// encodings are ways in which a server may send a text back.
var encodings = map[string]func(string) string{
	"plain":      func(s string) string { return s },
	"upper case": strings.ToUpper,
	"in a text":  func(s string) string { return "<" + s + ">" },
	"a piece":    func(s string) string { return s[3:13] },
	"escapes": func(s string) (all string) {
		for _, c := range []byte(s) {
			all += fmt.Sprintf(`\u%04x`, c)
		}
		return all
	},
	"percent": func(s string) (all string) {
		for _, c := range []byte(s) {
			all += fmt.Sprintf("%%%02X", c)
		}
		return all
	},
	"percent where needed": url.QueryEscape,
	"entities": func(s string) (all string) {
		for _, c := range s {
			all += fmt.Sprintf("&#%d;", c)
		}
		return all
	},
	"dashes":      func(s string) string { return strings.Join(strings.Split(s, ""), "-") },
	"dots in two": func(s string) string { return s[:6] + "..." + s[6:] },
	"lines of four": func(s string) (all string) {
		for i := 0; i < len(s); i += 4 {
			all += s[i:min(i+4, len(s))] + "\n> "
		}
		return all
	},
	"invisible":     func(s string) string { return strings.Join(strings.Split(s, ""), "\u200b") },
	"reversed":      reversed,
	"base32":        func(s string) string { return base32.StdEncoding.EncodeToString([]byte("?" + s)) },
	"lower base32":  func(s string) string { return strings.ToLower(base32.StdEncoding.EncodeToString([]byte(s))) },
	"hex in pairs":  func(s string) string { return fmt.Sprintf("% x", s) },
	"hex of Go":     func(s string) string { return fmt.Sprintf("%#v", []byte(s)) },
	"decimal codes": func(s string) string { return fmt.Sprint([]byte(s)) },
	"octal": func(s string) (all string) {
		for _, c := range []byte(s) {
			all += fmt.Sprintf(`\%03o`, c)
		}
		return all
	},
	"base64 in groups": func(s string) (all string) {
		for i, c := range base64.StdEncoding.EncodeToString([]byte(s)) {
			if i > 0 && i%4 == 0 {
				all += " "
			}
			all += string(c)
		}
		return all
	},
	"quoted":    func(s string) string { return fmt.Sprintf("%q", fmt.Sprintf("%q", s)) },
	"hex":       func(s string) string { return hex.EncodeToString([]byte(s)) },
	"upper hex": func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"hex inside": func(s string) string {
		return "a" + hex.EncodeToString([]byte(s)) + "b"
	},
	"base64 0": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 1": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("?" + s)) },
	"base64 2": func(s string) string { return base64.StdEncoding.EncodeToString([]byte("?>" + s + "\xff\xfe")) },
	"base64 cut off": func(s string) string {
		return base64.RawStdEncoding.EncodeToString([]byte(s))[:18]
	},
	"base64 twice": func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte(base64.URLEncoding.EncodeToString([]byte(s))))
	},
	"hex in base64": func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte(hex.EncodeToString([]byte(s))))
	},
	"gzip": func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, s) // a buffer takes everything
		_ = w.Close()
		return base64.StdEncoding.EncodeToString(b.Bytes())
	},
	"two lines":   func(s string) string { return s[:len(s)/2] + "\n" + s[len(s)/2:] },
	"spaces":      func(s string) string { return strings.Join(strings.Split(s, ""), " ") },
	"at the cut":  func(s string) string { return strings.Repeat("-", 105) + s },
	"over JSON":   func(s string) string { return `{"a":"` + s + `"}` },
	"two of them": func(s string) string { return s + s },
}

// leaks returns a part of a secret that a text has, in one form or another.
func leaks(text, secret string, part int) string {
	text = strings.ToLower(text)
	forms := []struct {
		name, text string
		part       int
	}{
		{"plain", secret, part}, {"hex", hex.EncodeToString([]byte(secret)), 2*part + 2},
		{"escapes", encodings["escapes"](secret), 6*part + 6}, {"percent", encodings["percent"](secret), 3*part + 3},
		{"entities", encodings["entities"](secret), 6*part + 6}, {"spaces", encodings["spaces"](secret), 2*part + 2},
	}
	for offset := range 3 {
		encoded := base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("?", offset) + secret))
		forms = append(forms, struct {
			name, text string
			part       int
		}{"base64", encoded[4:], part*4/3 + 6})
	}
	text = strings.NewReplacer("+", "-", "/", "_").Replace(text) + text
	for _, form := range forms {
		lower := strings.ToLower(form.text)
		for i := 0; i+form.part <= len(lower); i++ {
			if strings.Contains(text, lower[i:i+form.part]) {
				return form.name + " " + lower[i:i+form.part]
			}
		}
	}
	return ""
}

// An echo is a server that sends back what it got, and its states, wherever a server can say something.
type echo struct {
	encode func(string) string

	mu   sync.Mutex
	said []string // the newest secrets
}

const (
	echoState  = "xKzWqPv7Rt2LmYc9Nd4Bg6Hj8Sf1Ua3Ee5-state-of-the-server-3f"
	echoToken  = "token/of+one=Zr8Kq2Wm"
	echoOther  = "token-of-another-Vx5Tn9Jb"
	echoQuery  = "key=query-secret-Lp3Gd7Fs"
	echoAnswer = "an answer that is private \"yes\" Qw6Er4Ty"
	echoUser   = "user-name-Hn2Bv8"
	echoPass   = "pass-word-Xc4Zl1"
)

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			RequestState   *string
			InputResponses map[string]struct{ Content struct{ A string } }
		}
	}
	if err != nil || json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	user, password, _ := r.BasicAuth()
	state := ""
	if m.Method == "tools/call" { // before, the state is in no call
		state = echoState
	}
	for _, text := range []string{token, r.URL.RawQuery, user, password, state} {
		if text != "" {
			e.said = append(e.said, text)
		}
	}
	for _, answer := range m.Params.InputResponses {
		if answer.Content.A != "" {
			e.said = append(e.said, answer.Content.A)
		}
	}
	e.said = e.said[max(0, len(e.said)-12):]
	next := func() string {
		text := e.said[0]
		e.said = append(e.said[1:], text)
		return e.encode(text)
	}
	result := map[string]any{"resultType": "complete", "content": []any{map[string]any{"type": "text", "text": next()}}}
	switch m.Method {
	case "server/discover":
		result["serverInfo"] = map[string]any{"name": next(), "version": next()}
	case "tools/list":
		var tools []any
		for _, name := range []string{"ask", next(), next()} {
			argument := next()
			tools = append(tools, map[string]any{"name": name, "description": next(), "inputSchema": map[string]any{
				"type": "object", "required": []string{argument},
				"properties": map[string]any{argument: map[string]any{"type": "string", "enum": []string{next()}}}}})
		}
		result["tools"] = tools
	case "tools/call":
		if m.Params.RequestState == nil || *m.Params.RequestState != echoState {
			field := map[string]any{"a": map[string]any{"type": "string", "title": "password " + next()},
				"password " + next(): map[string]any{"type": "string"}}
			result = map[string]any{"resultType": "input_required", "requestState": echoState, "inputRequests": map[string]any{
				"q": map[string]any{"method": "elicitation/create", "params": map[string]any{"mode": "form",
					"message": next() + " https://example.com", "requestedSchema": map[string]any{
						"type": "object", "properties": field, "required": []string{"a"}}}},
				next(): map[string]any{"method": "elicitation/" + next(), "params": map[string]any{"mode": "url",
					"url": "https://u:p@example.com/?api_key=" + url.QueryEscape(next()), "message": next()}}}}
			break
		}
		if len(m.Params.InputResponses) == 0 {
			result["isError"] = true
		}
	default:
		text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, // it has strings only
			"error": map[string]any{"code": -32601, "message": next()}})
		_, _ = w.Write(text)
		return
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// outputs are all that a report becomes.
func outputs(t *testing.T, r *findings.Report) map[string]string {
	t.Helper()
	all := map[string]string{"terminal": report.Text(r, report.TextOptions{})}
	for name, render := range map[string]func(*findings.Report) (string, error){
		"JSON": report.JSON, "SARIF": report.SARIF,
		"JUnit": func(r *findings.Report) (string, error) { return report.JUnit(r, findings.Fail) },
	} {
		text := expect.Must(render(r))(t)
		all[name] = text
	}
	for i, name := range report.TranscriptNames(r) {
		all["transcript "+name] = r.Verdicts[i].Transcript
		all["file name "+name] = name
	}
	return all
}

// Nothing is removed from a text without a secret, and no text makes the removal fail.
func FuzzClean(f *testing.F) {
	for _, encode := range encodings {
		f.Add("got "+encode(echoToken), echoToken)
	}
	f.Fuzz(func(t *testing.T, text, secret string) {
		s := redact.New()
		s.AddToken(secret)
		clean := s.Clean(text)
		lower := lowerASCII(secret)
		if len(lower) >= 6 && len(lower) < 16<<10 && strings.Contains(lowerASCII(clean), lower) &&
			!strings.Contains(redact.Redacted, lower) {
			t.Errorf("%q is left in %q", secret, clean)
		}
		if none := redact.New().Clean(text); none != text {
			t.Errorf("%q became %q", text, none)
		}
	})
}

// No secret of either identity is in any output, however a server sends it back.
func TestNoSecretIsInAnyOutput(t *testing.T) {
	t.Parallel()
	const piece, part = 10, 32 // characters of a token, and of a state or an answer, that no output may have
	secrets := map[string]int{echoToken: piece, echoOther: piece, echoQuery: piece, echoUser: piece,
		echoPass: piece, echoState: part, echoAnswer: part}
	for name, encode := range encodings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(&echo{encode: encode})
			t.Cleanup(web.Close)
			var progress strings.Builder
			address := strings.Replace(web.URL, "://", "://"+echoUser+":"+echoPass+"@", 1) + "/mcp?" + echoQuery
			o := Options{Server: Endpoint{URL: address, Header: bearer(echoToken)}, Second: bearer(echoOther),
				Allow: []string{"*"}, MaxRequests: 300,
				Only:     []string{"questions", "state-forged", "state-principal", "answers-kind", "answers-none"},
				Progress: func(what string) { progress.WriteString(what + "\n") },
				Plan:     Plan{Calls: map[string]PlannedCall{"ask": {Answers: map[string]map[string]any{"q": {"a": echoAnswer}}}}}}
			if name == "base64 1" { // the user of the URL is sent instead
				o.Server.Header = nil
			}
			report, err := runPatiently(t.Context(), o)
			expect.Check(t, err)
			if len(report.Targets) == 0 || report.Count(findings.Pass) == 0 {
				t.Errorf("nothing was judged: %s", report.Stopped)
			}
			all := outputs(t, report)
			all["progress"] = progress.String()
			plan, _, err := Init(t.Context(), Options{Server: o.Server, Second: o.Second, MaxRequests: 20})
			expect.Check(t, err)
			text := expect.Must(json.Marshal(plan))(t)
			all["plan"] = string(text)
			for where, text := range all {
				for secret, part := range secrets {
					if leak := leaks(text, secret, part); leak != "" {
						t.Errorf("%s has %s of %s:\n%.2000s", where, leak, secret, text)
						break
					}
				}
			}
		})
	}
}

// A raw transcript has answers, and no tokens.
func TestARawTranscriptHasNoTokens(t *testing.T) {
	t.Parallel()
	r, err := newRun(Options{Server: Endpoint{URL: "http://127.0.0.1:1/mcp", Header: bearer(echoToken)}, Raw: true,
		Plan: Plan{Calls: map[string]PlannedCall{"ask": {Answers: map[string]map[string]any{"q": {"a": echoAnswer}}}}}})
	expect.Check(t, err)
	defer r.close()
	r.report.Verdicts = []findings.Verdict{{Transcript: echoToken + " " + echoAnswer, Reason: echoAnswer}}
	r.finish()
	v := r.report.Verdicts[0]
	if v.Transcript != redact.Redacted+" "+echoAnswer || strings.Contains(v.Reason, echoAnswer) {
		t.Errorf("%+v", v)
	}
}

// lowerASCII is a text with small letters, as far as ASCII goes.
func lowerASCII(text string) string {
	b := []byte(text)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}

func reversed(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}
