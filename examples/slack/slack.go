package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// Slack posts to a channel through an incoming webhook of Slack.
type Slack struct {
	webhook string // its URL is a secret: who knows it can post
	inbox   string // the URL of the page on which people answer
	client  *http.Client
}

// NewSlack checks the two URLs. Its errors do not repeat the first one, which is a secret.
func NewSlack(webhook, inbox string) (*Slack, error) {
	if u, err := url.Parse(webhook); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("SLACK_WEBHOOK_URL: want the URL that Slack shows for an incoming webhook")
	}
	if u, err := url.Parse(inbox); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("INBOX_URL is %q: want the URL of the page on which people answer", inbox)
	}
	return &Slack{webhook, strings.TrimSuffix(inbox, "/"), &http.Client{
		Timeout:       10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Notify tells the channel that a question waits, is due soon, or has met its deadline. After an error it is called
// again with the same notice, for three days.
func (s *Slack) Notify(ctx context.Context, n desk.Notice) error {
	var what string
	switch n.Kind {
	case task.NoticeAsked:
		what = "is waiting"
	case task.NoticeDueSoon:
		what = "is still waiting"
	case task.NoticeUnanswered:
		what = "was not answered in time"
	default:
		return nil // what is decided needs nobody any more
	}
	return s.post(ctx, s.message(n, what))
}

// A message in the form of Block Kit.
type (
	message struct {
		Text   string  `json:"text"` // for notifications
		Blocks []block `json:"blocks"`
	}
	block struct {
		Type string `json:"type"`
		Text text   `json:"text"`
	}
	text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
)

// escape keeps a text from mentioning people and from making links.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace

// message says who is asked what, and where to answer. The question itself may have words of the caller, so it is plain
// text, in which Slack knows no mentions, links and styles.
func (s *Slack) message(n desk.Notice, what string) message {
	summary := fmt.Sprintf("A question of the tool %s for %s %s", n.Target, strings.Join(n.For, ", "), what)
	about := escape(summary) + "."
	if !n.Deadline.IsZero() {
		about += fmt.Sprintf(" The deadline is <!date^%d^{date_short_pretty}, {time}|%s>.", n.Deadline.Unix(),
			n.Deadline.UTC().Format(time.RFC1123))
	}
	if n.Kind != task.NoticeUnanswered {
		about += fmt.Sprintf(" <%s/q/%s/%s|Answer it>", s.inbox, url.PathEscape(n.Name), url.PathEscape(n.Key))
	}
	return message{Text: escape(cut(summary)), Blocks: []block{
		{"section", text{"plain_text", cut(n.Message)}},
		{"section", text{"mrkdwn", about}},
	}}
}

// cut keeps to the limit of a section, which is 3,000 characters.
func cut(s string) string {
	if r := []rune(s); len(r) > 2900 {
		return string(r[:2900]) + " …"
	}
	return s
}

func (s *Slack) post(ctx context.Context, m message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.webhook, bytes.NewReader(body))
	if err != nil {
		return errors.New("posting to Slack: the URL is not valid")
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the URL
		}
		return fmt.Errorf("posting to Slack: %w", err)
	}
	defer res.Body.Close()
	reason, _ := io.ReadAll(io.LimitReader(res.Body, 200)) // a word such as invalid_payload
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("posting to Slack: %s: %q", res.Status, reason)
	}
	return nil
}
