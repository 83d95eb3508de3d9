// Package slacktest stands in for Slack in tests and demonstrations. A [Server] speaks the part of Slack's documented
// API that package slack uses, and refuses what Slack refuses: unknown tokens, channels and members, and blocks beyond
// their limits. People press buttons and send forms by its methods, which sign requests to the app as Slack does.
package slacktest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options configure a [Server].
type Options struct {
	Token         string   // of the bot
	SigningSecret string   // signs what goes to the app
	Channels      []string // their IDs; the bot is a member of them
	// Posted, if set, is called when a message is posted or changed. It may not call the server.
	Posted func(m Message)
}

// Server stands in for Slack. It serves the API under /api/. It is safe for concurrent use.
type Server struct {
	opts Options

	mu       sync.Mutex
	messages []*Message
	views    map[string]json.RawMessage // by the trigger that has opened them
	told     map[string]string          // by the secret in the response_url
	last     int                        // counts messages, triggers and responses
}

// Message is a message in a channel.
type Message struct {
	Channel, TS, Thread string
	Text                string
	Blocks              json.RawMessage
	Metadata            json.RawMessage
	Edits               int
}

// Button is a button of a message.
type Button struct{ ID, Value, Text, URL string }

// Buttons returns the buttons of the message.
func (m *Message) Buttons() (all []Button) {
	for _, e := range walk(m.Blocks, "button") {
		text, _ := e["text"].(map[string]any)
		b := Button{}
		b.ID, _ = e["action_id"].(string)
		b.Value, _ = e["value"].(string)
		b.URL, _ = e["url"].(string)
		b.Text, _ = text["text"].(string)
		all = append(all, b)
	}
	return all
}

// Words returns the texts of the blocks, a line each, without the buttons.
func (m *Message) Words() string {
	var lines []string
	for _, e := range walk(m.Blocks, "plain_text", "mrkdwn") {
		text, _ := e["text"].(string)
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// walk returns the objects of some types in blocks. What is in a button is not among them.
func walk(raw json.RawMessage, types ...string) (all []map[string]any) {
	var root any
	_ = json.Unmarshal(raw, &root) // it was checked when it came
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				visit(e)
			}
		case map[string]any:
			kind, _ := v["type"].(string)
			if slices.Contains(types, kind) {
				all = append(all, v)
			}
			if kind == "button" {
				return
			}
			for _, name := range []string{"text", "fields", "elements", "element", "label"} {
				visit(v[name])
			}
		}
	}
	visit(root)
	return all
}

// New returns a server without messages.
func New(opts Options) *Server {
	return &Server{opts: opts, views: make(map[string]json.RawMessage), told: make(map[string]string)}
}

// Messages returns the messages of all channels as they are, in the order in which they were posted.
func (s *Server) Messages() (all []Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		all = append(all, *m)
	}
	return all
}

// Remove deletes a message, as somebody who looks after the channel may.
func (s *Server) Remove(ts string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = slices.DeleteFunc(s.messages, func(m *Message) bool { return m.TS == ts })
}

// ServeHTTP serves the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil || r.Method != http.MethodPost {
		http.Error(w, "invalid_request", http.StatusBadRequest)
		return
	}
	if secret, ok := strings.CutPrefix(r.URL.Path, "/response/"); ok {
		s.respond(w, secret, body)
		return
	}
	answer, refused := s.call(strings.TrimPrefix(r.URL.Path, "/api/"), r.Header, body)
	if refused != "" {
		answer = map[string]any{"ok": false, "error": refused}
	} else {
		answer["ok"] = true
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// respond takes what an app sends to a response_url.
func (s *Server) respond(w http.ResponseWriter, secret string, body []byte) {
	var m struct {
		Text            string          `json:"text"`
		Type            string          `json:"response_type"`
		ReplaceOriginal bool            `json:"replace_original"`
		DeleteOriginal  bool            `json:"delete_original"`
		Blocks          json.RawMessage `json:"blocks"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.told[secret]
	if !known || d.Decode(&m) != nil || m.Type != "ephemeral" || m.ReplaceOriginal || m.DeleteOriginal || m.Text == "" ||
		m.Blocks != nil && checkBlocks(m.Blocks, false) != nil {
		http.Error(w, "invalid_payload", http.StatusBadRequest)
		return
	}
	s.told[secret] = m.Text
	_, _ = io.WriteString(w, "ok")
}

// members are the arguments of the methods that the server knows.
var members = map[string][]string{
	"chat.postMessage": {"token", "channel", "text", "blocks", "metadata", "thread_ts", "reply_broadcast", "mrkdwn",
		"unfurl_links", "unfurl_media", "parse", "link_names"},
	"chat.update": {"token", "channel", "ts", "text", "blocks", "metadata", "parse", "link_names", "reply_broadcast",
		"unfurl_links", "unfurl_media", "mrkdwn"},
	"conversations.history": {"token", "channel", "cursor", "inclusive", "latest", "limit", "oldest",
		"include_all_metadata"},
	"views.open": {"token", "trigger_id", "view", "interactivity_pointer"},
}

func (s *Server) call(method string, header http.Header, body []byte) (answer map[string]any, refused string) {
	known, ok := members[method]
	if !ok {
		return nil, "unknown_method"
	}
	args := url.Values{}
	if strings.HasPrefix(header.Get("Content-Type"), "application/json") {
		var object map[string]json.RawMessage
		if json.Unmarshal(body, &object) != nil {
			return nil, "invalid_json"
		}
		for name, raw := range object {
			args.Set(name, string(raw))
			if text := ""; json.Unmarshal(raw, &text) == nil {
				args.Set(name, text)
			}
		}
	} else if args, _ = url.ParseQuery(string(body)); args == nil {
		return nil, "invalid_form_data"
	}
	for name := range args {
		if !slices.Contains(known, name) {
			return nil, "invalid_arguments"
		}
	}
	token := args.Get("token")
	if bearer, ok := strings.CutPrefix(header.Get("Authorization"), "Bearer "); ok {
		token = bearer
	}
	if token == "" {
		return nil, "not_authed"
	}
	if token != s.opts.Token {
		return nil, "invalid_auth"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if method == "views.open" {
		return s.openView(args)
	}
	if !slices.Contains(s.opts.Channels, args.Get("channel")) {
		return nil, "channel_not_found"
	}
	if method == "conversations.history" {
		return s.history(args)
	}
	return s.write(method, args)
}

func (s *Server) write(method string, args url.Values) (answer map[string]any, refused string) {
	m := &Message{Channel: args.Get("channel"), Text: args.Get("text"), Thread: args.Get("thread_ts")}
	if text := args.Get("blocks"); text != "" {
		m.Blocks = json.RawMessage(text)
		if err := checkBlocks(m.Blocks, false); err != nil {
			return map[string]any{"response_metadata": err.Error()}, "invalid_blocks"
		}
	}
	if text := args.Get("metadata"); text != "" {
		m.Metadata = json.RawMessage(text)
		var meta struct {
			Type    string         `json:"event_type"`
			Payload map[string]any `json:"event_payload"`
		}
		if json.Unmarshal(m.Metadata, &meta) != nil || meta.Type == "" || len(text) > 16<<10 {
			return nil, "invalid_metadata_format"
		}
	}
	switch {
	case m.Text == "" && m.Blocks == nil:
		return nil, "no_text"
	case len(m.Text) > 40_000:
		return nil, "msg_too_long"
	}
	if method == "chat.update" {
		at := slices.IndexFunc(s.messages, func(old *Message) bool {
			return old.Channel == m.Channel && old.TS == args.Get("ts")
		})
		if at < 0 {
			return nil, "message_not_found"
		}
		m.TS, m.Thread, m.Edits = s.messages[at].TS, s.messages[at].Thread, s.messages[at].Edits+1
		s.messages[at] = m
	} else {
		s.last++
		m.TS = fmt.Sprintf("%d.%06d", time.Now().Unix(), s.last)
		s.messages = append(s.messages, m)
	}
	if s.opts.Posted != nil {
		s.opts.Posted(*m)
	}
	return map[string]any{"channel": m.Channel, "ts": m.TS}, ""
}

func (s *Server) history(args url.Values) (answer map[string]any, refused string) {
	limit, err := strconv.Atoi(args.Get("limit"))
	if err != nil || limit < 1 || limit > 999 {
		return nil, "invalid_limit"
	}
	from, _ := strconv.Atoi(args.Get("cursor"))
	all, next := []map[string]any{}, ""
	for _, m := range slices.Backward(s.messages) { // the newest first
		if m.Channel != args.Get("channel") || m.TS <= args.Get("oldest") {
			continue
		}
		if from > 0 {
			from--
			continue
		}
		if len(all) == limit {
			before, _ := strconv.Atoi(args.Get("cursor"))
			next = strconv.Itoa(before + limit)
			break
		}
		found := map[string]any{"type": "message", "ts": m.TS, "text": m.Text}
		if m.Metadata != nil && args.Get("include_all_metadata") != "" {
			found["metadata"] = m.Metadata
		}
		all = append(all, found)
	}
	return map[string]any{"messages": all, "has_more": next != "",
		"response_metadata": map[string]any{"next_cursor": next}}, ""
}

func (s *Server) openView(args url.Values) (answer map[string]any, refused string) {
	trigger, view := args.Get("trigger_id"), json.RawMessage(args.Get("view"))
	opened, known := s.views[trigger]
	switch {
	case !known:
		return nil, "invalid_trigger_id"
	case opened != nil:
		return nil, "exchanged_trigger_id"
	case checkView(view) != nil:
		return nil, "invalid_arguments"
	}
	s.views[trigger] = view
	return map[string]any{"view": map[string]any{"id": "V" + trigger}}, ""
}

// User is somebody who presses.
type User struct {
	ID   string
	Team string // of the user
	// Home is the team in which the user presses. Empty means Team.
	Home string
}

// Pressed is what somebody sees after they have pressed a button or sent a form.
type Pressed struct {
	Status int             // of the app's response; Slack shows a failure unless it is 200
	Told   string          // by the form, or by then by a message that only the user sees: see Server.Told
	View   json.RawMessage // the form that has opened, or nil
	// Request can be sent again with Replay.
	Request *http.Request
	Body    []byte
	secret  string
}

// Told returns what the app has told a user by now. It may do so after its response.
func (s *Server) Told(p *Pressed) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.secret == "" {
		return p.Told
	}
	return s.told[p.secret]
}

// Press presses a button of a message. The app is the URL to which Slack sends interactions, and base the URL of this
// server.
func (s *Server) Press(ctx context.Context, app, base string, by User, m Message, b Button) (*Pressed, error) {
	s.mu.Lock()
	s.last++
	trigger, secret := fmt.Sprint("trigger", s.last), fmt.Sprint("response", s.last)
	s.views[trigger], s.told[secret] = nil, ""
	s.mu.Unlock()
	payload := by.payload("block_actions")
	payload["trigger_id"], payload["response_url"] = trigger, base+"/response/"+secret
	payload["container"] = map[string]any{"type": "message", "message_ts": m.TS, "channel_id": m.Channel}
	payload["channel"] = map[string]any{"id": m.Channel}
	payload["message"] = map[string]any{"ts": m.TS, "blocks": m.Blocks}
	payload["actions"] = []any{map[string]any{"type": "button", "action_id": b.ID, "block_id": "askback", "value": b.Value,
		"action_ts": fmt.Sprint(s.number())}}
	p, err := s.send(ctx, app, payload)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Told, p.View, p.secret = s.told[secret], s.views[trigger], secret
	return p, nil
}

// Submit sends a form. Values has what was filled in, by the ID of the block, in the form in which Slack sends it.
func (s *Server) Submit(
	ctx context.Context, app string, by User, view json.RawMessage, values map[string]any,
) (*Pressed, error) {
	payload := by.payload("view_submission")
	var v map[string]any
	if err := json.Unmarshal(view, &v); err != nil {
		return nil, err
	}
	filled := make(map[string]any)
	for block, value := range values {
		filled[block] = map[string]any{"value": value}
	}
	v["id"], v["state"] = fmt.Sprint("V", s.number()), map[string]any{"values": filled}
	payload["view"] = v
	return s.send(ctx, app, payload)
}

func (s *Server) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

func (u User) payload(kind string) map[string]any {
	home := u.Home
	if home == "" {
		home = u.Team
	}
	return map[string]any{"type": kind, "team": map[string]any{"id": home, "domain": "example"}, "api_app_id": "A1",
		"user": map[string]any{"id": u.ID, "team_id": u.Team, "username": "somebody"}, "token": "legacy"}
}

func (s *Server) send(ctx context.Context, app string, payload map[string]any) (*Pressed, error) {
	raw, err := json.Marshal(payload)
	if err != nil {
		return nil, err
	}
	body := []byte(url.Values{"payload": {string(raw)}}.Encode())
	req, err := s.Sign(ctx, app, time.Now(), body)
	if err != nil {
		return nil, err
	}
	return s.Replay(req, body)
}

// Sign returns a request to an app as Slack signs it at a time.
func (s *Server) Sign(ctx context.Context, app string, at time.Time, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, app, nil)
	if err != nil {
		return nil, err
	}
	sent := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(s.opts.SigningSecret))
	fmt.Fprintf(mac, "v0:%s:%s", sent, body)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("X-Slack-Request-Timestamp", sent)
	req.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
	return req, nil
}

// Replay sends a request as it is.
func (s *Server) Replay(req *http.Request, body []byte) (*Pressed, error) {
	req = req.Clone(req.Context())
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	p := &Pressed{Status: res.StatusCode, Request: req, Body: body}
	var form struct {
		Action string            `json:"response_action"`
		Errors map[string]string `json:"errors"`
		View   json.RawMessage   `json:"view"`
	}
	if res.StatusCode != http.StatusOK || len(answer) == 0 {
		return p, nil
	}
	if err := json.Unmarshal(answer, &form); err != nil {
		return nil, fmt.Errorf("slack shows an error: the app answered %q", answer)
	}
	switch form.Action {
	case "errors":
		for _, text := range form.Errors {
			p.Told = text
		}
	case "update":
		if err := checkView(form.View); err != nil {
			return nil, err
		}
		m := Message{Blocks: blocksOf(form.View)}
		p.View, p.Told = form.View, m.Words()
	}
	return p, nil
}

func blocksOf(view json.RawMessage) json.RawMessage {
	var v struct {
		Blocks json.RawMessage `json:"blocks"`
	}
	_ = json.Unmarshal(view, &v) // it was checked
	return v.Blocks
}
