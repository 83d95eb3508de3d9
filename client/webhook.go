package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/askback-mcp/askback/internal/signedhook"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// NewEventSecret returns a random secret for an [EventSubscription].
func NewEventSecret() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never an error
	return signedhook.Secret(key)
}

// EventSubscription has a server post the events of one type to an address, where an [EventReceiver] listens. The
// Name, the Arguments and the URL tell it from the caller's other ones.
type EventSubscription struct {
	Name      string
	Arguments map[string]any // as the type's inputSchema has them
	URL       string         // https
	Secret    string         // of [NewEventSecret]. To rotate it, subscribe again with another one
	// Cursor is the last one that came from the server. Empty is the present.
	Cursor string
	// TTL is how long the subscription shall last. Zero leaves it to the server.
	TTL time.Duration
}

// EventGrant is what the server has agreed to.
type EventGrant struct {
	ID string // by which the receiver knows what is posted
	// RefreshBefore is when the subscription ends unless it is made again. Zero means that it does not end by itself.
	RefreshBefore time.Time
	Cursor        string
	// Truncated says that there may have been events since the Cursor of the subscription that will not be posted.
	Truncated bool
	// LastError is why the last post was not taken, in a word of the extension such as "timeout". It is empty if all is
	// well.
	LastError string
}

// eventDelivery says where events are posted.
type eventDelivery struct {
	Mode   string `json:"mode"`
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty"`
}

func (e *EventSubscription) params(secret string) *taskParams {
	return &taskParams{Name: e.Name, Arguments: e.Arguments, Delivery: &eventDelivery{"webhook", e.URL, secret}}
}

// Subscribe subscribes to events, or prolongs what is subscribed to. The server may ask the endpoint for its consent
// before it returns, so the receiver must know the Secret already. A program subscribes again before RefreshBefore,
// with the last Cursor. (SEP-3415, "Webhook-Based Delivery")
func (s *Session) Subscribe(ctx context.Context, e *EventSubscription) (*EventGrant, error) {
	params := e.params(e.Secret)
	params.Cursor, params.TTL = e.Cursor, e.TTL.Milliseconds()
	raw, err := s.request(ctx, TasksExtension, wire.SubscribeEvents, e.Name, params)
	if err != nil {
		return nil, err
	}
	return parseGrant(raw)
}

// Unsubscribe ends a subscription. It needs no Secret.
func (s *Session) Unsubscribe(ctx context.Context, e *EventSubscription) error {
	_, err := s.request(ctx, TasksExtension, wire.UnsubscribeEvents, e.Name, e.params(""))
	return err
}

// maxSubscriptionID bounds the ID of a subscription, in bytes.
const maxSubscriptionID = 256

// parseGrant reads the result of a subscription. Its JSON has been checked.
func parseGrant(raw []byte) (*EventGrant, error) {
	before := strictjson.Get(raw, "refreshBefore")
	ends := before != nil && strictjson.TypeOf(before) != strictjson.TypeNull
	g := &EventGrant{RefreshBefore: timestamp(before), Truncated: isTrue(raw, "truncated")}
	g.ID, _ = strictjson.String(strictjson.Get(raw, "id"))
	g.LastError, _ = strictjson.String(strictjson.Get(strictjson.Get(raw, "deliveryStatus"), "lastError"))
	var err error
	switch g.Cursor, err = parseCursor(raw); {
	case err != nil:
		return nil, err
	case g.ID == "" || len(g.ID) > maxSubscriptionID || len(g.LastError) > 100:
		return nil, &ProtocolError{"a subscription has no id, or its id or its error is too long"}
	case ends && g.RefreshBefore.IsZero():
		return nil, &ProtocolError{"a subscription has a refreshBefore that is no time"}
	}
	return g, nil
}

// EventReceiver is the endpoint to which servers post events, an [http.Handler] for the URL of an [EventSubscription].
// It verifies that a post has the signature of a subscription, was sent within five minutes, and has at most 256 KiB.
// It answers what a server asks before it posts. It is safe for concurrent use, and its fields must not be changed.
// (SEP-3415, "Webhook security")
type EventReceiver struct {
	// Secrets returns the secrets of a subscription: two while it is rotated, and none if it is unknown. Before Subscribe
	// has returned, the server posts under an ID that is not known yet. Then return the secrets of all subscriptions that
	// have no ID yet. The ID is anybody's word.
	Secrets func(ctx context.Context, id string) (secrets []string, err error)

	// Receive takes what was posted under the ID of a subscription: a page with one event, or with none and Truncated if
	// there may have been events that the server no longer has. The end of a subscription is a *jsonrpc.Error, without a
	// page. Receive returns nil once nothing is lost by a crash. Otherwise the server posts the
	// same again, and it may do so anyway: the ID of an Event tells. The Cursor of a page is for the next Subscribe.
	Receive func(ctx context.Context, id string, page *EventPage, ended error) error
}

// The bounds of a post.
const (
	maxPost      = 256 << 10
	maxPostDepth = 64
)

// ServeHTTP implements [http.Handler].
func (e *EventReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, answer := e.serve(w, r)
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	if answer != nil {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

// serve returns the status and the body of the response.
func (e *EventReceiver) serve(w http.ResponseWriter, r *http.Request) (status int, answer []byte) {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, nil
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return http.StatusUnsupportedMediaType, nil
	}
	id := r.Header.Get("X-Mcp-Subscription-Id")
	if id == "" || len(id) > maxSubscriptionID {
		return http.StatusUnauthorized, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPost))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return http.StatusRequestEntityTooLarge, nil // the server does not send it again
	}
	if err != nil {
		return http.StatusBadRequest, nil
	}
	secrets, err := e.Secrets(r.Context(), id)
	if err != nil || len(secrets) == 0 { // who is not known yet may be soon
		return http.StatusServiceUnavailable, nil
	}
	var keys [][]byte
	for _, secret := range secrets {
		if key, ok := signedhook.Key(secret); ok {
			keys = append(keys, key)
		}
	}
	if signedhook.Verify(r.Header, keys, time.Now(), body) != nil {
		return http.StatusUnauthorized, nil
	}
	if strictjson.Check(body, maxPostDepth) != nil || strictjson.TypeOf(body) != strictjson.TypeObject {
		return http.StatusBadRequest, nil
	}
	if kind, _ := strictjson.String(strictjson.Get(body, "type")); kind == "verification" {
		return echo(body)
	}
	page, ended, err := parsePost(body, r.Header.Get(signedhook.HeaderID))
	if err != nil {
		return http.StatusGone, nil // what it means is not known here, and will not be the next time
	}
	if e.Receive(r.Context(), id, page, ended) != nil {
		return http.StatusServiceUnavailable, nil
	}
	return http.StatusNoContent, nil
}

// echo answers a challenge.
func echo(body []byte) (status int, answer []byte) {
	challenge, isText := strictjson.String(strictjson.Get(body, "challenge"))
	answer, err := json.Marshal(map[string]string{"challenge": challenge})
	if !isText || err != nil {
		return http.StatusBadRequest, nil
	}
	return http.StatusOK, answer
}

// parsePost reads what was posted with an ID. Its JSON has been checked.
func parsePost(body []byte, id string) (page *EventPage, ended, err error) {
	kind := "event"
	if said := strictjson.Get(body, "type"); said != nil {
		if kind, _ = strictjson.String(said); kind != "gap" && kind != "terminated" {
			return nil, nil, &ProtocolError{"a post is of an unknown type"}
		}
	}
	page, ended, err = parseNews(kind, body, "")
	if err == nil && kind == "event" && page.Events[0].ID != id {
		err = &ProtocolError{"an event has another eventId than its post"}
	}
	return page, ended, err
}
