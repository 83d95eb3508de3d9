package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/desk/webhook"
	"github.com/askback-mcp/askback/task"
)

// receiver accepts a notice once ntfy has the push. Until then the sender posts it again.
func receiver(secrets string, phones *Phones) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := webhook.Receive(r, secrets)
		if err != nil {
			log.Print(err)
			http.Error(w, "not verified", http.StatusUnauthorized)
			return
		}
		if err := phones.Push(r.Context(), n); err != nil {
			log.Print(err)
			http.Error(w, "not pushed", http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// Phones pushes to those that have subscribed to a topic.
type Phones struct {
	server, topic, token string
	inbox                string // the URL of the page on which people answer
	client               *http.Client
}

// NewPhones checks the settings. The token may be empty. No error repeats it, or the topic: on a server without
// accounts, who knows the topic can read it.
func NewPhones(server, topic, token, inbox string) (*Phones, error) {
	for name, address := range map[string]string{"NTFY_URL": server, "INBOX_URL": inbox} {
		if u, err := url.Parse(address); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return nil, fmt.Errorf("%s: want an absolute URL, https or http", name)
		}
	}
	if topic == "" {
		return nil, errors.New("NTFY_TOPIC: want the topic to which the phones have subscribed")
	}
	return &Phones{server, topic, token, strings.TrimSuffix(inbox, "/"), &http.Client{
		Timeout:       10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// push is a message as ntfy publishes it. Without "markdown" its text is plain: a caller can hide no link in it.
type push struct {
	Topic    string `json:"topic"`
	Title    string `json:"title"`
	Message  string `json:"message"`
	Priority int    `json:"priority"` // from 1, which makes no sound, to 5
	Click    string `json:"click"`
}

// Push tells the phones that a question waits, or is due soon. Other notices need nobody.
func (p *Phones) Push(ctx context.Context, n desk.Notice) error {
	m := push{
		Topic: p.topic, Message: cut(n.Message, 4000), // ntfy makes a file of more than 4,096 bytes
		Click: p.inbox + "/q/" + url.PathEscape(n.Name) + "/" + url.PathEscape(n.Key),
	}
	who := n.Target + " asks " + strings.Join(n.For, ", ")
	switch n.Kind {
	case task.NoticeAsked:
		m.Title, m.Priority = cut(who, 200), 3
	case task.NoticeDueSoon:
		m.Title, m.Priority = "Until "+n.Deadline.UTC().Format("15:04 MST")+": "+cut(who, 200), 5
	default:
		return nil
	}
	return p.publish(ctx, m)
}

// cut keeps to a number of bytes.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func (p *Phones) publish(ctx context.Context, m push) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.server, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	res, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("pushing through ntfy: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("pushing through ntfy: it answered %d", res.StatusCode)
	}
	return nil
}
