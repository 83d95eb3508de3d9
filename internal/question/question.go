// Package question makes the questions that a call can ask its client, in the form in which they are sent, and
// decides what counts as an answer to each.
package question

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Question is an input request. It is not safe for concurrent use.
type Question struct {
	Method string
	Need   wire.Capability // the capability that the client must have declared
	Digest journal.Digest  // of all that the handler asks; zero in the SDK's manual style
	Accept Accept
	Wire   string // the key under which it is sent; empty before

	// For lists who may answer in place of the client, as in task.Question. Votes is how many must accept alike.
	// An empty For means the client.
	For     []string
	Votes   int
	Within  time.Duration // the time until its deadline; zero means no deadline
	Preview string        // shown beside the call's arguments, unless it is empty
	// Markdown is set if the message and Preview may be rendered. Like Preview it is not part of Digest, because the text
	// stays the same: a vote that was given before still counts.
	Markdown bool
	// Fallback reports that the question is for its caller, whose host cannot ask it.
	Fallback bool
	// Optional reports that its handler does without an answer: an error of the client counts as one that says nothing.
	Optional bool

	params []byte
	typed  mcp.InputRequest
	// A form is encoded when it is sent: most are asked again by a handler that runs from the top, and answered.
	template *template
	message  string
}

// Timer is a question that nobody answers: its deadline passes.
func Timer(within time.Duration) *Question { return &Question{Within: within, Digest: TimerDigest} }

// TimerDigest is the digest of every Timer, and of no question that somebody answers.
var TimerDigest = digest([]byte(`"sleep"`))

// Params returns the parameters of the request, encoded.
func (q *Question) Params() []byte {
	if q.params == nil && q.template != nil {
		q.params = q.template.params(q.message)
	}
	return q.params
}

// Typed returns the parameters of the request as the SDK's type.
func (q *Question) Typed() mcp.InputRequest {
	if q.typed == nil && q.template != nil {
		q.typed = &mcp.ElicitParams{Mode: "form", Message: q.message, RequestedSchema: q.template.typed}
	}
	return q.typed
}

// WithTyped returns a question with other parameters as the SDK's type.
func (q *Question) WithTyped(params mcp.InputRequest) *Question {
	other := *q
	other.typed = params
	return &other
}

// Form asks the user to fill in a form.
func Form(message string, schema *form.Schema) *Question {
	return newTemplate(schema).question(message)
}

// FormOf is [Form] with the schema of type t.
func FormOf(message string, t reflect.Type) (*Question, error) {
	known, ok := templates.Load(t)
	if !ok {
		schema, err := form.For(t)
		if err != nil {
			return nil, err
		}
		known, _ = templates.LoadOrStore(t, newTemplate(schema))
	}
	return known.(*template).question(message), nil
}

// templates holds the template of each type. Whole questions are not kept: a message may hold what a caller wrote, and
// must not outlive the request.
var templates sync.Map // reflect.Type → *template

// template holds the parts that all questions with one form share.
type template struct {
	schema    []byte
	canonical []byte // form of the schema
	typed     any    // the schema, for the SDK's type
	accept    Accept
	form      *form.Schema
}

func newTemplate(s *form.Schema) *template {
	return &template{s.JSON(), strictjson.AppendCanonical(nil, s.JSON()), json.RawMessage(s.JSON()), acceptForm(s), s}
}

// question makes the question with a message.
func (t *template) question(message string) *Question {
	if !utf8.ValidString(message) {
		message = string([]rune(message)) // as encoding/json does it: the digest must be that of the encoded question
	}
	// The digest is digest(params), made without parsing params: every run of a handler makes one for each question.
	canonical := strictjson.AppendString(append(make([]byte, 0, 512), `{"message":`...), message)
	canonical = append(append(append(canonical, `,"mode":"form","requestedSchema":`...), t.canonical...), '}')
	sum := sha256.Sum256(canonical)
	return &Question{
		Method: input.MethodElicit, Need: wire.Form, Digest: journal.Digest(sum[:16]), Accept: t.accept,
		template: t, message: message,
	}
}

// params encodes the question with a message, which is UTF-8.
func (t *template) params(message string) []byte {
	params := make([]byte, 0, len(message)+len(t.schema)+64)
	params = strictjson.AppendString(append(params, `{"mode":"form","message":`...), message)
	return append(append(append(params, `,"requestedSchema":`...), t.schema...), '}')
}

// FormFor is [Form] for a schema made while the call runs, whose answers are to unmarshal into type t: a number that
// the schema allows may be too large for a Go type.
func FormFor(message string, schema any, t reflect.Type) (*Question, error) {
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	parsed, err := form.Parse(data)
	if err != nil {
		return nil, err
	}
	q := Form(message, parsed)
	fits := q.Accept
	q.Accept = func(raw []byte) ([]byte, error) {
		record, err := fits(raw)
		if content := strictjson.Get(record, "content"); err == nil && content != nil {
			// The error of json is not passed on, because it may repeat the answer.
			if json.Unmarshal(content, reflect.New(t).Interface()) != nil {
				err = errors.New("the form allows it, but the server cannot hold it, such as a number that is too large")
			}
		}
		return record, err
	}
	return q, nil
}

// ForeignForm is [Form] for a schema that a stranger wrote.
func ForeignForm(message string, schema any) (*Question, error) {
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	read, err := form.Read(data)
	if err != nil {
		return nil, err
	}
	return Form(message, read), nil
}

// Plain returns a form for a client that shows nothing but text, yes or no, and single choices: see
// [form.Schema.Plain]. It stays the same question to its handler, and takes the answers to both forms.
func (q *Question) Plain() *Question {
	p, ok := q.Typed().(*mcp.ElicitParams)
	if !ok || q.template == nil {
		return q
	}
	schema := q.template.form.Plain()
	if schema == nil {
		return q
	}
	plain, typed := *q, *p
	typed.RequestedSchema = json.RawMessage(schema)
	plain.typed, plain.params = &typed, replace(q.Params(), "requestedSchema", schema)
	plain.Accept = func(raw []byte) ([]byte, error) {
		if converted, found := q.template.form.FromPlain(strictjson.Get(raw, "content")); found {
			raw = replace(raw, "content", converted)
		}
		return q.Accept(raw)
	}
	return &plain
}

// Unfit returns the reason why an answer does not fit the question as it was sent, even if the handler reads the answer
// itself.
func (q *Question) Unfit(raw []byte) error {
	accept, err := AcceptFor(q.Method, q.Params())
	if err == nil {
		_, err = accept(raw)
	}
	return err
}

// Correctable reports whether asking again can help if an answer does not fit: a person can correct an answer, and a
// model or a list of roots comes out the same.
func Correctable(method string) bool { return method == input.MethodElicit }

// didNotFit stands between the message of a question and the reason why it is asked again. Reason finds it there, so
// that reasons do not pile up, and a page can show the two apart.
const didNotFit = "\n\nThe answer before this one does not fit: "

// Again returns an elicitation whose message has the reason why it is asked again, and any other question as it is. It
// keeps its digest, so to its handler it is the same question.
func (q *Question) Again(reason error) *Question {
	p, ok := q.Typed().(*mcp.ElicitParams)
	if !ok {
		return q
	}
	again, typed := *q, *p
	typed.Message = explained(p.Message, reason)
	again.typed, again.params = &typed, AskAgain(q.Params(), reason)
	return &again
}

// AskAgain returns the params of an elicitation with the reason why it is asked again in its message.
func AskAgain(params []byte, reason error) []byte {
	message, ok := strictjson.String(strictjson.Get(params, "message"))
	if !ok {
		return params
	}
	return replace(params, "message", strictjson.AppendString(nil, explained(message, reason)))
}

// replace returns an object with another value of a member.
func replace(object []byte, member string, by []byte) []byte {
	other := append(make([]byte, 0, len(object)+len(by)), '{')
	for name, value := range strictjson.Members(object) {
		if string(name) == member {
			value = by
		}
		other = append(strictjson.AppendString(other, string(name)), ':')
		other = append(append(other, value...), ',')
	}
	return append(bytes.TrimSuffix(other, []byte(",")), '}')
}

// explained adds the reason to a message, or replaces the one that it has.
func explained(message string, reason error) string {
	return Asked(message) + didNotFit + reason.Error() + "."
}

// Asked is the message of a question as its handler gave it.
func Asked(message string) string {
	message, _ = Reason(message)
	return message
}

// Reason splits the message of a question into the handler's message, and the reason why it is asked again, if it is.
func Reason(message string) (asked, reason string) {
	asked, reason, _ = strings.Cut(message, didNotFit)
	return asked, strings.TrimSuffix(reason, ".")
}

// IsPage reports whether a text is the URL of a page.
func IsPage(page string) bool {
	u, err := url.Parse(page)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// URL asks the user to open a page.
func URL(message, page string) (*Question, error) {
	if !IsPage(page) {
		// The error does not quote the URL, which may have secrets in it.
		return nil, errors.New("the URL must be well-formed and absolute, https or http")
	}
	typed := &mcp.ElicitParams{Mode: "url", Message: message, URL: page}
	params, err := json.Marshal(typed)
	if err != nil {
		return nil, err
	}
	return &Question{
		Method: input.MethodElicit, params: params, typed: typed, Need: wire.URL, Digest: digest(params), Accept: acceptURL,
	}, nil
}

// Sample asks the client's model for a completion, in either of the SDK's types.
func Sample(params mcp.InputRequest) (*Question, error) {
	var messages int
	var maxTokens int64
	switch p := params.(type) {
	case *mcp.CreateMessageWithToolsParams:
		messages, maxTokens = len(p.Messages), p.MaxTokens
	case *mcp.CreateMessageParams:
		messages, maxTokens = len(p.Messages), p.MaxTokens
	}
	if messages == 0 {
		return nil, errors.New("sampling needs at least one message")
	}
	if maxTokens <= 0 {
		return nil, errors.New("sampling needs MaxTokens")
	}
	var data []byte
	if p, ok := params.(*mcp.CreateMessageWithToolsParams); ok {
		if data = raw.Of[json.RawMessage](p); data != nil {
			own := *p
			own.Meta, params = nil, &own
		}
	}
	if data == nil {
		var err error
		if data, err = json.Marshal(params); err != nil {
			return nil, err
		}
	}
	need := needOf(params)
	return &Question{
		Method: input.MethodCreateMessage, params: data, typed: params, Need: need, Digest: digest(data),
		Accept: acceptSample(need&wire.SamplingTools != 0),
	}, nil
}

// needOf returns the capability that a client must have declared to be asked.
func needOf(request mcp.InputRequest) wire.Capability {
	switch p := request.(type) {
	case *mcp.ElicitParams:
		if p.Mode == "url" || p.URL != "" {
			return wire.URL
		}
		return wire.Form
	case *mcp.CreateMessageWithToolsParams:
		if len(p.Tools) > 0 || p.ToolChoice != nil {
			return wire.Sampling | wire.SamplingTools
		}
		return wire.Sampling
	case *mcp.CreateMessageParams:
		return wire.Sampling
	}
	return wire.Roots
}

// Roots asks the client for its roots.
func Roots() *Question {
	return &Question{
		Method: input.MethodListRoots, Need: wire.Roots, Digest: noParamsDigest, Accept: acceptRoots,
		params: noParams, typed: &mcp.ListRootsParams{},
	}
}

// The specification lets params be absent, the Go SDK's client does not.
var (
	noParams       = []byte("{}")
	noParamsDigest = digest(noParams)
)

// Manual is an input request that a handler in the SDK's manual style returned. It has no digest: the handler itself
// reads the answers.
func Manual(request mcp.InputRequest) (*Question, error) {
	data, err := json.Marshal(mcp.InputRequestMap{"q": request})
	if err != nil {
		return nil, err
	}
	encoded := strictjson.Get(data, "q")
	q := &Question{params: strictjson.Get(encoded, "params"), typed: request, Need: needOf(request)}
	q.Method, _ = strictjson.String(strictjson.Get(encoded, "method"))
	return q, nil
}

// Stored returns a question as it was sent before. Answers to it are recorded as they are: if checked, those that fit.
func Stored(method string, params []byte, checked bool) (*Question, error) {
	check, err := AcceptFor(method, params)
	if err != nil {
		return nil, err
	}
	encoded := wire.AppendInputRequests(nil, []wire.InputRequest{{Key: "q", Method: method, Params: params}})
	var typed mcp.InputRequestMap
	if err := json.Unmarshal(encoded, &typed); err != nil {
		return nil, err
	}
	accept := func(raw []byte) ([]byte, error) {
		if _, err := check(raw); checked && err != nil {
			return nil, err
		}
		return raw, nil
	}
	return &Question{
		Method: method, params: params, typed: typed["q"], Need: needOf(typed["q"]), Digest: digest(params), Accept: accept,
	}, nil
}

// digest identifies a question by all that the client sees of it. Parameters of different methods are never equal.
func digest(params []byte) journal.Digest {
	sum := strictjson.Digest(params)
	return journal.Digest(sum[:16])
}
