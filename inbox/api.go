package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	_ "embed"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/exactjson"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/task"
)

// openAPI describes what is below /api/, and /events. Tests hold every response against it.
//
//go:embed openapi.yaml
var openAPI []byte

// channelAPI is the channel of answers that come this way.
const channelAPI = "inbox api"

// The bounds of a list.
const (
	defaultLimit = 50
	mostLimit    = 200
	mostPage     = 200
	mostText     = 200 // bytes of a search
	mostTools    = 20
)

// api serves the addresses below /api/, which are for programs.
type api struct {
	desk *desk.Desk
	log  *slog.Logger
}

// serveAPI registers the addresses for programs.
func (in *Inbox) serveAPI() {
	a := &api{in.desk, in.log}
	in.handle("GET /whoami", whoami)
	in.handle("GET /api/whoami", a.person)
	in.handle("GET /api/questions", a.list)
	const one = "/api/questions/{name}/{key}"
	in.handle("GET "+one, a.question)
	in.handle("GET "+one+"/arguments", a.arguments)
	in.handle("GET "+one+"/receipt", a.receipt)
	in.handle("POST "+one+"/answer", changing(a, a.answer))
	in.handle("POST "+one+"/claim", changing(a, a.claim))
	in.handle("POST "+one+"/hand-over", changing(a, a.handOver))
	in.handle("POST "+one+"/extend", changing(a, a.extend))
	in.handle("GET /api/remembered", a.remembered)
	in.handle("GET /api/remembered/{name}/receipt", a.rememberedReceipt)
	in.handle("POST /api/remembered/{name}/forget", a.forget)
	in.mux.HandleFunc("GET /events", in.serveEvents)
	in.mux.HandleFunc("GET /api/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(openAPI) // an error means that the client is gone
	})
	in.mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) { refuse(w, r, unknown()) })
}

// person is who sent a request, as programs are told it.
type person struct {
	Name   string   `json:"name"`
	Groups []string `json:"groups"`
}

func (a *api) person(w http.ResponseWriter, r *http.Request, p desk.Person) {
	a.reply(w, r, person{p.Name, append([]string{}, p.Groups...)})
}

// shown is a question as programs see it.
type shown struct {
	*desk.Question
	// MayAnswer reports whether the person could answer it, as long as it is open.
	MayAnswer bool `json:"mayAnswer"`
	// Incomplete is set if a part of it cannot be read.
	Incomplete bool `json:"incomplete,omitempty"`
}

func newQuestion(q *desk.Question, p desk.Person, err error) shown {
	return shown{q, q.May(p) == nil, err != nil}
}

// shownList is one page of a list.
type shownList struct {
	Questions []shown `json:"questions"`
	Next      int     `json:"next,omitempty"` // the number of the next page; 0 if this is the last page
}

func (a *api) list(w http.ResponseWriter, r *http.Request, p desk.Person) {
	query := r.URL.Query()
	all, err := a.find(r, query, p)
	limit, err2 := number(query, "limit", defaultLimit, mostLimit)
	page, err3 := number(query, "page", 1, mostPage)
	if err := errors.Join(err, err2, err3); err != nil {
		refuse(w, r, malformed(err))
		return
	}
	list, at := shownList{Questions: []shown{}}, 0
	for q, err := range all {
		if q == nil {
			a.fail(w, r, err)
			return
		}
		if at++; at <= (page-1)*limit {
			continue
		}
		if len(list.Questions) == limit {
			if page < mostPage {
				list.Next = page + 1
			}
			break
		}
		list.Questions = append(list.Questions, newQuestion(q, p, err))
	}
	a.reply(w, r, list)
}

// find returns the questions of the list that a query chooses.
func (a *api) find(
	r *http.Request, query url.Values, p desk.Person,
) (all iter.Seq2[*desk.Question, error], err error) {
	known := []string{"list", "order", "search", "tool", "limit", "page"}
	for name, values := range query {
		if !slices.Contains(known, name) || len(values) > 1 && name != "tool" {
			return nil, fmt.Errorf("the parameter %.40q is not known, or is there twice", name)
		}
	}
	w := desk.Waiting{As: &p, Targets: query["tool"], Search: query.Get("search")}
	if len(w.Search) > mostText || len(w.Targets) > mostTools {
		return nil, fmt.Errorf("a search has at most %d bytes, and a list at most %d tools", mostText, mostTools)
	}
	order := query.Get("order")
	switch order {
	case "", "oldest":
	case "newest":
		w.Newest = true
	case "deadline":
		w.ByDeadline = true
	default:
		return nil, errors.New("the order must be oldest, newest or deadline")
	}
	switch list := query.Get("list"); list {
	case "", "waiting":
		return a.desk.Waiting(r.Context(), w), nil
	case "answered", "began":
		if order != "" || w.Search != "" || w.Targets != nil {
			return nil, errors.New("order, search and tool are for the list of what waits: the others have the newest first")
		}
		if list == "began" {
			return a.desk.Began(r.Context(), p), nil
		}
		return a.desk.Answered(r.Context(), p), nil
	}
	return nil, errors.New("the list must be waiting, answered or began")
}

// number returns a parameter that is a number of 1 or more.
func number(query url.Values, name string, without, most int) (int, error) {
	if !query.Has(name) {
		return without, nil
	}
	n, err := strconv.Atoi(query.Get(name))
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("the %s must be a number from 1 to %d", name, most)
	}
	return n, nil
}

func (a *api) question(w http.ResponseWriter, r *http.Request, p desk.Person) {
	q, err := a.desk.Question(r.Context(), r.PathValue("name"), r.PathValue("key"), &p)
	if q == nil {
		a.fail(w, r, err)
		return
	}
	a.reply(w, r, newQuestion(q, p, err))
}

// arguments sends all arguments of a call. A browser stores them in a file, and shows nothing of them.
func (a *api) arguments(w http.ResponseWriter, r *http.Request, p desk.Person) {
	arguments, err := a.desk.Arguments(r.Context(), r.PathValue("name"), r.PathValue("key"), &p)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="arguments.json"`)
	_, _ = w.Write(arguments) // an error means that the client is gone
}

// receipt sends the receipt of a decision, which a browser stores in a file.
func (a *api) receipt(w http.ResponseWriter, r *http.Request, p desk.Person) {
	receipt, err := a.desk.Receipt(r.Context(), r.PathValue("name"), r.PathValue("key"), &p)
	if errors.Is(err, desk.ErrNoReceipt) {
		refuse(w, r, &problem{kind: "no-receipt", Status: http.StatusNotFound, Title: sentence(desk.ErrNoReceipt)})
		return
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Disposition", `attachment; filename="receipt.json"`)
	a.reply(w, r, receipt)
}

// changing returns the handler of a change to a question, whose body is a T with no other members.
func changing[T any](
	a *api, do func(r *http.Request, p desk.Person, body T) (*desk.Question, error),
) func(w http.ResponseWriter, r *http.Request, p desk.Person) {
	return func(w http.ResponseWriter, r *http.Request, p desk.Person) {
		var body T
		if problem := readChange(r, &body); problem != nil {
			refuse(w, r, problem)
			return
		}
		q, err := do(r, p, body)
		if errors.Is(err, task.ErrNotFound) && a.seen(r, p) {
			refuse(w, r, &problem{kind: "not-asked", Status: http.StatusForbidden,
				Title: "You may see this question, but you are not asked: others must answer."})
			return
		}
		if err != nil {
			a.fail(w, r, err)
			return
		}
		a.reply(w, r, newQuestion(q, p, nil))
	}
}

// readChange reads the body of a change, which has no other members.
func readChange(r *http.Request, body any) *problem {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &problem{kind: "media-type", Status: http.StatusUnsupportedMediaType,
			Title: "The body must be JSON, with the Content-Type application/json."}
	}
	if err := decode(r.Body, body); err != nil {
		return malformed(err)
	}
	return nil
}

// seen reports whether a question that somebody may not answer concerns them all the same.
func (a *api) seen(r *http.Request, p desk.Person) bool {
	q, _ := a.desk.Question(r.Context(), r.PathValue("name"), r.PathValue("key"), &p)
	return q != nil
}

// mostDepth bounds the nesting of a request's body: the content of an answer, and the object around it.
const mostDepth = 66

// decode reads a JSON object whose members are all known. The error repeats nothing of its values.
func decode(from io.Reader, into any) error {
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	if err := strictjson.Check(text, mostDepth); err != nil {
		return err
	}
	if strictjson.TypeOf(text) != strictjson.TypeObject {
		return errors.New("the body must be a JSON object")
	}
	known, err := json.Marshal(into)
	if err != nil {
		return err
	}
	for name := range strictjson.Members(text) {
		if strictjson.Get(known, string(name)) == nil {
			return fmt.Errorf("the member %.40q is not known", name)
		}
	}
	if err := exactjson.Unmarshal(text, into); err != nil {
		return errors.New("a member has a value of another type than it must have")
	}
	return nil
}

func malformed(err error) *problem {
	return &problem{kind: "malformed", Status: http.StatusBadRequest, Title: sentence(err)}
}

// answerBody is the body of an answer. Its zero value has all members, as the other changes do.
type answerBody struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content"`
	Reason  string          `json:"reason"`
}

func (a *api) answer(r *http.Request, p desk.Person, b answerBody) (*desk.Question, error) {
	answer := desk.Answer{By: p, Action: b.Action, Content: b.Content, Reason: b.Reason, Channel: channelAPI}
	return a.desk.Answer(r.Context(), r.PathValue("name"), r.PathValue("key"), answer)
}

type claimBody struct {
	Seconds int64 `json:"seconds"`
}

func (a *api) claim(r *http.Request, p desk.Person, b claimBody) (*desk.Question, error) {
	return a.desk.Claim(r.Context(), r.PathValue("name"), r.PathValue("key"), p, seconds(b.Seconds))
}

type handOverBody struct {
	To      string `json:"to"`
	Seconds int64  `json:"seconds"`
}

func (a *api) handOver(r *http.Request, p desk.Person, b handOverBody) (*desk.Question, error) {
	return a.desk.HandOver(r.Context(), r.PathValue("name"), r.PathValue("key"), p, b.To, seconds(b.Seconds))
}

type extendBody struct {
	Deadline time.Time `json:"deadline"`
	Reason   string    `json:"reason"`
}

func (a *api) extend(r *http.Request, p desk.Person, b extendBody) (*desk.Question, error) {
	return a.desk.Extend(r.Context(), r.PathValue("name"), r.PathValue("key"), p, b.Deadline, b.Reason)
}

// seconds converts a number of seconds to a duration. What is longer than any claim stays so.
func seconds(n int64) time.Duration {
	const most = 366 * 24 * 60 * 60
	return time.Duration(min(max(n, -1), most)) * time.Second
}

// reply sends what a program asked for.
func (a *api) reply(w http.ResponseWriter, r *http.Request, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // an error means that the client is gone
}

// fail tells the sender of a request the reason of its failure, and logs the inbox's own faults.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	p, known := problemOf(err)
	if !known && r.Context().Err() == nil {
		a.log.ErrorContext(r.Context(), "inbox: a request failed", "path", r.URL.Path, "error", err)
	}
	refuse(w, r, p)
}
