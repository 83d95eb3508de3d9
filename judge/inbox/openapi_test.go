package inbox

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// described is the API of an inbox, each of whose requests and responses is held against its description.
type described struct {
	*testing.T
	handler   http.Handler
	validator validator.Validator
	seen      []string // the statuses that were returned
}

func newDescribed(t *testing.T, d *desk.Desk) *described {
	t.Helper()
	in := expect.Must(inbox.New(d, &inbox.Options{Logger: slog.New(slog.DiscardHandler),
		Identity: inbox.IdentityFunc(func(r *http.Request) (desk.Person, error) {
			name, groups, _ := strings.Cut(r.Header.Get("As"), ":")
			if name == "" {
				return desk.Person{}, errors.New("there is no As")
			}
			return desk.Person{Name: name, Groups: strings.Fields(groups)}, nil
		})}))(t)
	w := httptest.NewRecorder()
	in.ServeHTTP(w, httptest.NewRequest("GET", "/api/openapi.yaml", nil))
	document := expect.Must(libopenapi.NewDocument(w.Body.Bytes()))(t)
	v, errs := validator.NewValidator(document)
	expect.Check(t, errors.Join(errs...))
	t.Cleanup(v.Release)
	if ok, problems := v.ValidateDocument(); !ok {
		t.Errorf("the description: %v", problems)
	}
	return &described{T: t, handler: in, validator: v}
}

// send sends a request as somebody, and wants this status, and a response as the description has it. What is not
// refused must be described, too.
func (d *described) send(want int, as, method, path, body string, headers ...string) {
	d.Helper()
	request := func() *http.Request {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("As", as)
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return r
	}
	if ok, problems := d.validator.ValidateHttpRequest(request()); !ok && want < 400 {
		d.Errorf("%s %s %s: %v", method, path, body, problems)
	} else if ok && want == http.StatusBadRequest {
		d.Errorf("%s %s %s is described, and refused", method, path, body)
	}
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, request())
	text := w.Body.String()
	if w.Code != want {
		d.Errorf("%s %s %s %.200s: %d, want %d: %s", as, method, path, body, w.Code, want, text)
	}
	res := w.Result()
	res.Body = io.NopCloser(strings.NewReader(text))
	if ok, problems := d.validator.ValidateHttpResponse(request(), res); !ok {
		d.Errorf("%s %s: the response of %d: %v\n%s", method, path, w.Code, problems, text)
	}
	d.seen = append(d.seen, fmt.Sprint(w.Code))
}

// Each response of the API is one of its description, and so is each request that it takes.
func TestAPIIsAsDescribed(t *testing.T) {
	s := newScene(t)
	d := newDescribed(t, s.desk)
	deploys := s.call("deploy", map[string]any{"version": "4.2", "within": "4h"})
	surveys := s.call("survey", map[string]any{"of": strings.Repeat("x", 40_000)}) // too many for a card
	at := func(q *desk.Question, suffix string) string { return "/api/questions/" + q.Name + "/" + q.Key + suffix }
	const ada, bob = "ada:release oncall", "bob:release"
	const survey = `{"action":"accept","reason":"Why not?","content":` +
		`{"title":"Report","copies":2,"format":"pdf","urgent":false}}`
	later := time.Now().Add(30 * 24 * time.Hour).UTC().Format(time.RFC3339)

	d.send(200, ada, "GET", "/api/whoami", "")
	d.send(200, "eve", "GET", "/api/whoami", "")
	for _, query := range []string{"", "?order=newest&limit=1",
		"?order=deadline&search=4.2&tool=deploy&tool=survey&page=1", "?list=answered", "?list=waiting"} {
		d.send(200, ada, "GET", "/api/questions"+query, "")
	}
	d.send(200, "carol", "GET", "/api/questions?list=began", "")
	d.send(200, ada, "GET", at(deploys, ""), "")
	d.send(200, ada, "GET", at(surveys, ""), "")
	d.send(200, ada, "GET", at(surveys, "/arguments"), "")
	d.send(404, "eve:sales", "GET", at(surveys, "/arguments"), "")
	d.send(200, ada, "POST", at(deploys, "/claim"), `{"seconds":600}`)
	d.send(422, bob, "POST", at(deploys, "/claim"), `{"seconds":600}`)
	d.send(200, ada, "POST", at(deploys, "/hand-over"), `{"to":"bob","seconds":600}`)
	d.send(200, bob, "POST", at(deploys, "/claim"), `{}`)
	d.send(200, bob, "POST", at(deploys, "/extend"), `{"deadline":"`+later+`","reason":"We meet on Monday."}`)
	d.send(200, ada, "POST", at(deploys, "/answer"), `{"action":"accept","content":{}}`)
	d.send(200, bob, "POST", at(deploys, "/answer"), `{"action":"accept","content":{},"reason":"It runs."}`)
	d.send(200, bob, "GET", at(deploys, ""), "")
	d.send(409, "dave:release", "POST", at(deploys, "/answer"), `{"action":"decline"}`)
	d.send(200, ada, "GET", "/api/questions?list=answered", "")
	d.send(422, ada, "POST", at(surveys, "/answer"), `{"action":"accept","content":{"title":"x"}}`)
	d.send(200, ada, "POST", at(surveys, "/answer"), survey)
	d.send(200, ada, "POST", at(surveys, "/answer"), survey)

	d.send(400, ada, "GET", "/api/questions?order=random", "")
	d.send(400, ada, "GET", "/api/questions?limit=201", "")
	d.send(400, bob, "POST", at(deploys, "/answer"), `{"action":"accept","by":"ada"}`)
	d.send(400, bob, "POST", at(deploys, "/extend"), `{"deadline":7}`)
	d.send(401, "", "GET", at(deploys, ""), "")
	d.send(403, "carol:release", "POST", at(deploys, "/answer"), `{"action":"decline"}`)
	d.send(403, "carol", "POST", at(deploys, "/claim"), `{"seconds":60}`)
	d.send(403, bob, "POST", at(deploys, "/answer"), `{"action":"decline"}`, "Sec-Fetch-Site", "cross-site")
	d.send(404, "eve:sales", "GET", at(deploys, ""), "")
	d.send(404, "eve:sales", "POST", at(deploys, "/answer"), `{"action":"decline"}`)
	d.send(413, "dora", "POST", at(surveys, "/answer"), `{"action":"decline","reason":"`+strings.Repeat("x", 2<<20)+`"}`)
	d.send(415, "dora", "POST", at(surveys, "/answer"), `{"action":"decline"}`, "Content-Type", "text/plain")
	for range 20 {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", at(deploys, "/claim"), strings.NewReader("{}"))
		r.Header.Set("As", "eve")
		d.handler.ServeHTTP(w, r)
	}
	d.send(429, "eve", "POST", at(deploys, "/claim"), `{}`)
	for _, status := range []string{"200", "400", "401", "403", "404", "409", "413", "415", "422", "429"} {
		if !slices.Contains(d.seen, status) {
			t.Errorf("no response was %s", status)
		}
	}
}
