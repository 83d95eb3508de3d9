package askback

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/exactjson"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Elicit asks the user to fill in a form and returns the answer. The form's schema is inferred from T, a struct of
// strings, booleans, numbers and choices. A field is required unless its json tag says omitempty or omitzero, or it
// is a pointer. These tags refine it:
//
//	json:"name"            the property's name
//	jsonschema:"…"         its description
//	title:"…"              its title
//	enum:"a|b"             a choice; []string with it is a multiple choice
//	enum:"a=Title|b=Other" a choice with titles
//	format:"email"         or uri, date, date-time
//	minLength, maxLength   of a string, in characters
//	minimum, maximum       of a number
//	minItems, maxItems     of a multiple choice
//	default:"…"            what the form starts with
//
// The key names the question within its call: it is what the client sees in inputRequests. Answers are remembered by
// key and question together, so that a reworded question is asked again. The same question twice in one run is an
// error, because one answer would stand for both: give each its own key. An answer that does not fit the schema is
// asked for again. Secrets must not be asked for in a form: see [ElicitURL].
//
// An ask never waits. Until the client answers, its error is [ErrInputRequired], which the handler returns; if the
// user would not answer it is a [*DeclinedError]; if the client cannot be asked it is a [*CapabilityError]. Asks that
// are made before the first error is returned cost one round trip together:
//
//	you, err1 := askback.Elicit[Person](call, "you", "Who are you?")
//	friend, err2 := askback.Elicit[Person](call, "friend", "Who is your friend?")
//	if err := errors.Join(err1, err2); err != nil {
//		return "", err
//	}
//
// (client/elicitation, "Form Mode Elicitation Requests", "Requested Schema")
func Elicit[T any](call *Call, key, message string) (T, error) {
	return elicitForm[T](call, key, Question{Message: message})
}

// elicitForm asks a question whose form is T.
func elicitForm[T any](call *Call, key string, q Question) (T, error) {
	form, err := question.FormOf(q.Message, reflect.TypeFor[T]())
	content, err := call.elicit(key, q.Message, q.put(form), err)
	return decode[T](content, err, exactjson.Unmarshal)
}

// MustForm panics if T is not a form, has a tag that a form does not know, or asks for a secret such as a password,
// with what to write instead. [Elicit] and [ElicitWith] find that when a call comes to them; call MustForm where the
// tool is added, to find it when the program starts.
func MustForm[T any]() {
	if _, err := question.FormOf("", reflect.TypeFor[T]()); err != nil {
		panic(fmt.Sprintf("askback.MustForm: %v", err))
	}
}

// Question is a question for [ElicitWith] and [Approve].
type Question struct {
	Message string
	// Schema is anything that marshals to the restricted JSON Schema of form elicitation,
	// such as a *jsonschema.Schema, a map or a json.RawMessage. Nil is the form of ElicitWith's type. [Approve] has none.
	// The form shows its fields in the order of the properties. A json.RawMessage has its own, a *jsonschema.Schema
	// has PropertyOrder, and the properties of a map come in the order of the alphabet.
	Schema any

	// For says who may answer, each made by [User] or [Group]. Empty means the caller. A question for others is not
	// sent to the client: it waits on the desk, where people answer it, and the call becomes a task. Message, Schema
	// and Preview have at most 64 KiB together. See [DeskOptions].
	For []string
	// Votes is how many of them must accept with the same content. One who declines ends the question. Zero is one.
	Votes int
	// Within is how long the question waits, from when it is first put; at most Limits.Within. Then the ask returns an
	// [*UnansweredError]. Zero means as long as the call lives.
	Within time.Duration
	// Preview is what those whom the question is For are shown beside the arguments of the call. Empty means nothing.
	Preview string
	// Markdown says that Message and Preview are Markdown: a page for people may render a safe subset of it. What others
	// wrote, such as the arguments of the call, must be escaped. Otherwise they are plain text.
	Markdown bool
}

// User returns the user of this name, as [Options.Principal] names callers, for Question.For.
func User(name string) string { return question.UserPrefix + name }

// Group returns the group of this name for Question.For. Who is in it, the desk learns with each answer.
func Group(name string) string { return question.GroupPrefix + name }

// Approve asks for a decision without a form, and returns nil once it is accepted. It returns the errors that
// [ElicitWith] returns.
func Approve(call *Call, key string, q Question) error {
	if q.Schema != nil {
		err := errors.New("Approve has no form: leave out the Schema, or use ElicitWith")
		_, err = call.ask(key, nil, err)
		return err
	}
	form, err := question.FormOf(q.Message, reflect.TypeFor[struct{}]())
	_, err = call.elicit(key, q.Message, q.put(form), err)
	return err
}

// put adds to a form all else that the question has: who may answer it, by how many votes, and until when.
func (q *Question) put(form *question.Question) *question.Question {
	if form != nil {
		form.Within, form.Preview, form.Markdown, form.Votes = q.Within, q.Preview, q.Markdown, q.Votes
		if len(q.For) > 0 {
			form.Address(q.For, q.Votes)
		}
	}
	return form
}

// ElicitWith is [Elicit] with all that a [Question] has: other people who answer, votes, a deadline, or a schema that
// is built while the call runs, such as one with choices from a database. Without a Schema it asks the form of T, as
// [Elicit] does. With one, T is what the answer's content unmarshals into, such as a struct or a map[string]any.
// (client/elicitation, "Requested Schema")
func ElicitWith[T any](call *Call, key string, q Question) (T, error) {
	if q.Schema == nil {
		return elicitForm[T](call, key, q)
	}
	if _, foreign := any(*new(T)).(raw.Content); foreign {
		form, err := question.ForeignForm(q.Message, q.Schema)
		content, err := call.elicit(key, q.Message, q.put(form), err)
		answer, _ := any(raw.Content(content)).(T)
		return answer, err
	}
	form, err := question.FormFor(q.Message, q.Schema, reflect.TypeFor[T]())
	content, err := call.elicit(key, q.Message, q.put(form), err)
	return decode[T](content, err, json.Unmarshal)
}

// decode decodes the content of an answer, unless there is an error in its place.
func decode[T any](content []byte, err error, unmarshal func([]byte, any) error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	var answer T
	err = unmarshal(content, &answer)
	return answer, err
}

// ElicitURL asks the user to open a page, and returns nil once the user agreed to. Whether the user finished there
// the server has to find out by itself; until then it may wait with [Call.Checkpoint]. The URL must be absolute,
// https or http; it must not carry secrets and must be bound to the user who opens it. It also returns the errors that
// [Elicit] returns. (client/elicitation, "URL Mode Elicitation Requests")
func ElicitURL(call *Call, key, message, url string) error {
	q, err := question.URL(message, url)
	_, err = call.elicit(key, message, q, err)
	return err
}

// Sample asks the client's model for a completion. It needs at least one message and
// MaxTokens. With tools in params the client must have declared sampling.tools. It returns the errors that [Elicit]
// returns, except [*DeclinedError]. (client/sampling)
func Sample(
	call *Call, key string, params *mcp.CreateMessageWithToolsParams,
) (*mcp.CreateMessageWithToolsResult, error) {
	if params == nil {
		params = new(mcp.CreateMessageWithToolsParams) // which is refused
	}
	q, err := question.Sample(params)
	value, err := call.ask(key, q, err)
	if err != nil {
		return nil, err
	}
	answer := new(mcp.CreateMessageWithToolsResult)
	if raw.Of[json.RawMessage](params) != nil {
		raw.InPlace(answer, json.RawMessage(value))
		return answer, nil
	}
	return answer, json.Unmarshal(value, answer)
}

// Roots asks the client for its roots. It returns the errors that [Elicit] returns, except [*DeclinedError].
// (client/roots)
func Roots(call *Call, key string) ([]*mcp.Root, error) {
	value, err := call.ask(key, question.Roots(), nil)
	if err != nil {
		return nil, err
	}
	var answer mcp.ListRootsResult
	err = json.Unmarshal(value, &answer)
	return answer.Roots, err
}

// ask returns the recorded answer to a question. The error says why the question could not be made.
func (c *Call) ask(key string, q *question.Question, err error) ([]byte, error) {
	if err != nil {
		err = &fault.Mistake{Kind: "question", Err: fmt.Errorf("question %q: %w", key, err)}
		return nil, &fault.AskError{Err: c.c.Mistaken(err)}
	}
	value, err := c.c.Ask(key, q)
	if err != nil && !errors.Is(err, ErrInputRequired) {
		if late, unanswered := errors.AsType[*journal.UnansweredError](err); unanswered {
			return nil, (*UnansweredError)(late)
		}
		err = &fault.AskError{Err: exported(err)}
	}
	return value, err
}

// elicit returns the content of the recorded answer to an elicitation. The error says why the question could not be
// made.
func (c *Call) elicit(key, message string, q *question.Question, err error) ([]byte, error) {
	if err == nil && strings.TrimSpace(message) == "" {
		err = errors.New("its message is empty: say what is asked")
	}
	value, err := c.ask(key, q, err)
	if err != nil {
		return nil, err
	}
	// Accept has recorded the action, so that it is one of the three.
	if action, _ := question.Action(value); action != "accept" {
		after, shown, measured := question.After(value)
		declined := &DeclinedError{Key: key, Action: action, After: after, NotShown: measured && !shown}
		if by := c.Answers(key); len(by) > 0 && by[0].Channel != input.ChannelHost {
			declined.by = by[0]
		}
		return nil, declined
	}
	return strictjson.Get(value, "content"), nil
}
