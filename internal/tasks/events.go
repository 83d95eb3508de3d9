package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/broadcast"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// Events says how callers, and people who are asked, learn what becomes of tasks (SEP-3415).
type Events struct {
	PollInterval time.Duration
	// Groups returns the groups of a principal. Nil: nobody is in a group.
	Groups   func(ctx context.Context, principal string) ([]string, error)
	Webhooks *Webhooks   // nil: none are offered
	Others   OtherEvents // that are passed on, or nil

	// What authors emit is kept for a time, and has so many bytes at most.
	Keep       time.Duration
	MaxPayload int

	Changed broadcast.Signal // the list of types has

	authors sync.Map // of *eventType, by name
}

// EventType is a type of events, as events/list shows it.
type EventType struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Delivery    []string        `json:"delivery"` // nil if it is as for all
	Input       json.RawMessage `json:"inputSchema"`
	Payload     json.RawMessage `json:"payloadSchema"`
}

// eventType is a type that this server has in its log.
type eventType struct {
	EventType

	people bool // whether people who are asked read it, too
	// kinds are the kinds in the store, with what the payload's own member says of each. Where that is empty, it says
	// the status of the task.
	kinds  map[task.EventKind]string
	member string

	match func(arguments []byte) (Matches, error) // as [AuthorEvent.Match]; nil: the type is of this library
}

// ownTypes are the types of this library.
var ownTypes = []*eventType{
	{EventType: EventType{"question.asked", "A call of yours asks you or other people, or somebody's call asks you.", nil,
		callArguments, callPayload(`"of"`, `"of":{"type":"string","enum":["caller","people"]},`+questionMember)},
		people: true, member: "of",
		kinds: map[task.EventKind]string{task.EventInput: "caller", task.EventAsked: "people"}},
	{EventType: EventType{"question.decided",
		"What a call asked people, yours or one that asked you, is decided, by them or by the deadline.", nil, callArguments,
		callPayload(`"outcome"`, `"outcome":{"type":"string","enum":["decided","unanswered"]},`+questionMember)},
		people: true, member: "outcome",
		kinds: map[task.EventKind]string{task.EventDecided: "decided", task.EventUnanswered: "unanswered"}},
	{EventType: EventType{"call.ended", "A call of yours has ended.", nil, callArguments,
		callPayload(`"status","taskId"`, `"status":{"type":"string","enum":["completed","failed","cancelled"]}`)},
		member: "status", kinds: map[task.EventKind]string{task.EventEnded: ""}},
}

// callArguments is the schema of the arguments of these types.
var callArguments = json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
	"tool":{"type":"string","description":"Only calls of the tool with this name."},
	"taskId":{"type":"string",
		"description":"Only the call that is the task with this ID. An anonymous caller must give it."}}}`)

const questionMember = `
	"question":{"type":"string","description":"The key of the question, if it is for you and not of your call."}`

// callPayload is the schema of a payload of these types, which has more members than what all have.
func callPayload(required, more string) json.RawMessage {
	return json.RawMessage(`{"type":"object","required":["call","tool",` + required + `],"properties":{
	"call":{"type":"string","description":"The name of the call, for the tool ` + ResultTool + `."},
	"taskId":{"type":"string","description":"The ID of its task, if the call is yours."},
	"tool":{"type":"string","description":"The name of its tool."},` + more + `}}`)
}

// The bounds of a page of events/poll.
const (
	defaultEvents = 50
	mostEvents    = 100
)

// ServeEvents answers a request about events from a principal, with the encoded result.
func (s *Service) ServeEvents(ctx context.Context, principal, method string, params []byte) ([]byte, error) {
	var members []byte
	var err error
	switch method {
	case wire.ListEvents:
		members, err = s.Events.list(params)
	case wire.PollEvents:
		members, err = s.pollEvents(ctx, principal, params)
	case wire.SubscribeEvents, wire.UnsubscribeEvents:
		serve := s.subscribe
		if method == wire.UnsubscribeEvents {
			serve = s.unsubscribe
		}
		if s.Events.Webhooks == nil || method == wire.SubscribeEvents && s.Events.onlyPassedOn(params) {
			return nil, unsupportedMode("webhook")
		}
		for range conflicts {
			if members, err = serve(ctx, principal, params); !errors.Is(err, task.ErrConflict) {
				break
			}
		}
		if errors.Is(err, task.ErrConflict) {
			err = s.failed(ctx, "saving a subscription", err)
		}
	default:
		return nil, MethodNotFound(method)
	}
	if err != nil {
		return nil, err
	}
	res := result{members: members}
	return res.encode(s.Info, true)
}

// list returns the members of the one page of event types.
func (e *Events) list(params []byte) ([]byte, error) {
	if cursor := strictjson.Get(params, "cursor"); given(cursor) {
		return nil, invalidParam("cursor", "does not come from this server")
	}
	delivery := []string{"poll", "push"}
	if e.Webhooks != nil {
		delivery = append(delivery, "webhook")
	}
	var listed []EventType
	for _, t := range e.types() {
		listed = append(listed, t.EventType)
	}
	if e.Others != nil {
		for _, t := range e.Others.Types() {
			listed = append(listed, *t)
		}
	}
	for i := range listed {
		if listed[i].Delivery == nil {
			listed[i].Delivery = delivery
		}
	}
	return membersOf(map[string]any{"events": listed})
}

// membersOf encodes the members of a result.
func membersOf(result any) ([]byte, error) {
	encoded, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	return encoded[1 : len(encoded)-1], nil
}

// occurrence is an event as its reader gets it.
type occurrence struct {
	ID        string    `json:"eventId"`
	Name      string    `json:"name"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`

	after cursor
}

// pollEvents reads what has happened since a cursor.
func (s *Service) pollEvents(ctx context.Context, principal string, params []byte) ([]byte, error) {
	most, ok := integer(strictjson.Get(params, "maxEvents"), defaultEvents)
	if !ok || most < 1 {
		return nil, invalidParam("maxEvents", "must be a positive number")
	}
	most = min(most, mostEvents)
	f, invalid := s.parseFollowed(params)
	if invalid != nil && invalid.Code == wire.CodeNotFound && s.Events.Others != nil {
		if members, err := s.pollOther(ctx, params); members != nil || err != nil {
			return members, err
		}
	}
	if invalid != nil {
		return nil, invalid
	}
	b, err := s.readEvents(ctx, principal, f, int(most))
	if err != nil {
		return nil, err
	}
	return membersOf(map[string]any{
		"events": b.events, "cursor": b.next.encode(), "truncated": b.truncated, "hasMore": b.more,
		"nextPollMs": s.Events.PollInterval.Milliseconds(),
	})
}

// eventBatch is what a reader gets at once.
type eventBatch struct {
	events  []occurrence // not nil
	next    cursor
	from    cursor // before the first event
	deleted int64  // as task.EventPage.Deleted
	reset   bool   // the reader's cursor is of another log
	// truncated says that the batch does not begin where its reader's cursor is, and more that there are events after it.
	truncated, more bool
}

// start is the cursor before the first event, as of now.
func (b *eventBatch) start() string {
	at := b.from
	at.minted = b.next.minted
	return at.encode()
}

// skip leaves out the event before next.
func (b *eventBatch) skip() {
	if b.truncated = true; len(b.events) == 0 {
		b.from = b.next
	}
}

// readEvents reads at most so many events for a principal, if it may read them. The error is one for the client.
func (s *Service) readEvents(ctx context.Context, principal string, f *followed, most int) (*eventBatch, error) {
	if f.of.match == nil {
		if err := s.mayFollow(ctx, principal, f.taskID); err != nil {
			return nil, err
		}
	}
	readers, err := s.eventReaders(ctx, principal, f)
	if err != nil {
		return nil, err
	}
	q := task.EventQuery{Readers: readers, Task: f.taskID, Target: f.tool, After: f.from.position}
	for kind := range f.of.kinds {
		q.Kinds = append(q.Kinds, kind)
	}
	if !f.fromNow {
		q.Limit = most + len(readers) // which may all have the last one
	}
	page, err := s.Engine.Events(ctx, q)
	b := &eventBatch{events: []occurrence{}, from: f.from}
	if err == nil && f.maxAge > 0 {
		f.since, f.maxAge = page.Now.Add(-f.maxAge), 0
	}
	if err == nil && !f.fromNow {
		b.truncated = q.Task == "" && page.Deleted > q.After // a task that is there has all its events
		if !f.from.isIn(page) {
			b.truncated, b.reset, b.from, q.After = true, true, cursor{minted: page.Now}, 0
			page, err = s.Engine.Events(ctx, q)
		}
	}
	if err != nil {
		return nil, s.failed(ctx, "reading events", err)
	}
	b.next.minted, b.deleted = page.Now, page.Deleted
	if n := len(page.Events); n > 0 && n == q.Limit { // what is told again at once stays together
		last := page.Events[n-1].ID()
		for n > 1 && page.Events[n-1].ID() == last {
			n--
		}
		page.Events, b.more = page.Events[:n], true
	}
	if err := fillBatch(ctx, principal, f, readers[0], page.Events, most, b); err != nil {
		return nil, s.failed(ctx, "deciding who gets an event", err)
	}
	if b.more {
		return b, nil
	}
	if page.Last != nil {
		b.next.moveTo(page.Last)
	}
	if page.Deleted > b.next.position {
		b.next.position, b.next.mark = page.Deleted, ""
	}
	if len(b.events) == 0 {
		b.from = b.next
	}
	return b, nil
}

// fillBatch adds at most so many of these events to a batch: each once, although it may be there for several readers.
func fillBatch(
	ctx context.Context, principal string, f *followed, caller string, events []*task.Event, most int, b *eventBatch,
) error {
	told, size := make(map[string]bool), 0
	for _, e := range events {
		id, own := e.ID(), e.Reader == caller
		again := told[id] || !own && e.Principal == principal // who has it as the caller
		if !again && (len(b.events) == most || size > mostPageBytes) {
			b.more = true
			break
		}
		told[id] = true
		b.next.moveTo(e)
		switch {
		case again && len(b.events) > 0: // who goes on from the event before has this one
			b.events[len(b.events)-1].after = b.next
		case again:
		case e.Written.Before(f.since):
			b.skip()
		case f.matches != nil:
			size += len(e.Payload)
			does, err := f.matches(ctx, principal, []byte(e.Payload))
			if err != nil {
				return err
			}
			if does {
				b.events = append(b.events, occurrence{e.Key, f.of.Name, e.Written, json.RawMessage(e.Payload), b.next})
			}
		default:
			b.events = append(b.events, occurrence{id, f.of.Name, e.Written, f.of.payload(e, own), b.next})
		}
	}
	return nil
}

// payload is what an event tells its caller, or people, who could read as much where they are asked.
func (t *eventType) payload(e *task.Event, caller bool) map[string]string {
	data := map[string]string{"call": task.Name(e.Task), "tool": e.Target, t.member: t.kinds[e.Kind]}
	if e.Kind == task.EventEnded {
		data[t.member] = string(e.Status)
	}
	if caller {
		data["taskId"] = e.Task
	} else {
		data["question"] = e.Key
	}
	return data
}

// mostGroups bounds the groups of a principal whose events are looked for.
const mostGroups = 64

// eventReaders returns as whom a principal reads what it follows: first as the caller, and then as one of the people.
func (s *Service) eventReaders(ctx context.Context, principal string, f *followed) ([]string, error) {
	if f.of.match != nil {
		return emittedReaders(f.of.Name, principal), nil
	}
	readers := []string{task.CallerReader(principal, f.taskID)}
	if !f.of.people || f.taskID != "" || principal == "" {
		return readers, nil
	}
	readers = append(readers, question.UserPrefix+principal)
	if s.Events.Groups == nil {
		return readers, nil
	}
	groups, err := s.Events.Groups(ctx, principal)
	if err == nil && len(groups) > mostGroups {
		err = fmt.Errorf("%q is in %d groups, and at most %d are looked at", principal, len(groups), mostGroups)
	}
	if err != nil {
		return nil, s.failed(ctx, "finding the groups of a caller", err)
	}
	for _, g := range groups {
		if g = question.GroupPrefix + g; !slices.Contains(readers, g) {
			readers = append(readers, g)
		}
	}
	return readers, nil
}

// mayFollow returns an error if a principal may not read the events of a task, or of all its tasks if there is no ID.
func (s *Service) mayFollow(ctx context.Context, principal, taskID string) error {
	if taskID == "" {
		if principal == "" {
			return wire.Errorf(wire.CodeForbidden,
				`an anonymous caller must name one task: give its ID as the argument "taskId"`)
		}
		return nil
	}
	_, err := s.Engine.Get(ctx, principal, taskID)
	if errors.Is(err, task.ErrNotFound) {
		return wire.Errorf(wire.CodeForbidden, "there is no such task of the caller, or no longer")
	}
	if err != nil {
		return s.failed(ctx, "retrieving a task", err)
	}
	return nil
}

// followed is what a reader follows: the events of one type, narrowed by arguments, from a place on.
type followed struct {
	of           *eventType
	tool, taskID string
	arguments    []byte
	matches      Matches // of an author's events, or nil
	fromNow      bool
	from         cursor // unless it is fromNow
	// What was written before is left out. A maxAge, unless it is 0, makes it since when events are read.
	since  time.Time
	maxAge time.Duration
}

// parseFollowed reads the parameters that all ways to follow events have.
func (s *Service) parseFollowed(params []byte) (*followed, *jsonrpc.Error) {
	f := new(followed)
	name, isText := strictjson.String(strictjson.Get(params, "name"))
	if !isText {
		return nil, invalidParam("name", "must be the name of an event type")
	}
	if f.of = s.Events.find(name); f.of == nil {
		return nil, wire.UnknownEvent(name)
	}
	arguments := strictjson.Get(params, "arguments")
	f.arguments = arguments
	if f.of.match != nil {
		var invalid *jsonrpc.Error
		if f.matches, invalid = f.of.parse(arguments); invalid != nil {
			return nil, invalid
		}
	} else if given(arguments) {
		if strictjson.TypeOf(arguments) != strictjson.TypeObject {
			return nil, invalidParam("arguments", "must be an object")
		}
		for name, value := range strictjson.Members(arguments) {
			text, isText := strictjson.String(value)
			switch {
			case isText && string(name) == "tool":
				f.tool = text
			case isText && string(name) == "taskId" && text != "":
				f.taskID = text
			default:
				return nil, invalidParam("arguments", `may have the strings "tool" and "taskId", and nothing else`)
			}
		}
	}
	if at := strictjson.Get(params, "cursor"); given(at) {
		text, isText := strictjson.String(at)
		var ok bool
		if f.from, ok = parseEventCursor(text); !isText || !ok {
			return nil, invalidParam("cursor", "does not come from this server")
		}
	} else {
		f.fromNow = true
	}
	if age := strictjson.Get(params, "maxAgeMs"); given(age) {
		ms, ok := integer(age, 0)
		if !ok || ms < 0 {
			return nil, invalidParam("maxAgeMs", "must be a number of milliseconds")
		}
		f.maxAge = max(time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond)))*time.Millisecond, 1)
	}
	return f, nil
}

// given reports whether a member is there: null says the same as nothing.
func given(value []byte) bool { return value != nil && strictjson.TypeOf(value) != strictjson.TypeNull }

// integer reads an integer in any spelling, or returns what is meant where there is none.
func integer(value []byte, absent int64) (int64, bool) {
	if !given(value) {
		return absent, true
	}
	if strictjson.TypeOf(value) != strictjson.TypeNumber {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(value), 64)
	if err != nil || n != math.Trunc(n) {
		return 0, false
	}
	const most = 1 << 53 // beyond it a float is no exact number
	return int64(max(min(n, most), -most)), true
}

func invalidParam(name, flaw string) *jsonrpc.Error {
	return wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %q %s", name, flaw)
}
