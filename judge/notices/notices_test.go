// Package notices judges what is told of questions by those who receive it: the library of Standard Webhooks, and a
// mail server.
package notices

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/desk/webhook"
	"github.com/askback-mcp/askback/examples/notify"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/judge"
	"github.com/askback-mcp/askback/task"
)

func TestMain(m *testing.M) { os.Exit(judge.Run(m)) }

var notice = desk.Notice{
	ID: "NAME-KEY-asked-1", Kind: task.NoticeAsked, Time: time.Now(), Name: "NAME", Key: "approve", Target: "deploy",
	Message: "Deploy <!channel> 4.2 für alle?\n.\nSubject: another", For: []string{"group:release"}, Votes: 2,
	Asked: time.Now(), Deadline: time.Now().Add(time.Hour),
}

// The library of Standard Webhooks verifies what is sent with one secret, and with two while one is rotated. It refuses
// it with another secret.
func TestStandardWebhooks(t *testing.T) {
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two bytes that are random"))
	next := "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two bytes that come next!"))
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two bytes of another key!"))
	for _, c := range []struct{ sender, receiver, want string }{
		{secret, secret, ""},
		{secret + " " + next, secret, ""},
		{secret + " " + next, next, ""},
		{secret + " " + next, other, "no matching signature"},
		{next, secret, "no matching signature"},
	} {
		receiver := expect.Must(standardwebhooks.NewWebhook(c.receiver))(t)
		verified := errors.New("nothing has arrived")
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			verified = receiver.Verify(body, r.Header)
		}))
		defer server.Close()
		hook := expect.Must(webhook.New(server.URL, c.sender, nil))(t)
		expect.Check(t, hook.Send(t.Context(), notice))
		if c.want == "" && verified != nil || c.want != "" && !strings.Contains(fmt.Sprint(verified), c.want) {
			t.Errorf("from %s to %s: %v", c.sender, c.receiver, verified)
		}
	}
}

// A mail server takes the e-mail as one message with the headers that it should have.
func TestMail(t *testing.T) {
	inbox := new(mailbox)
	server := smtp.NewServer(inbox)
	server.Domain = "localhost"
	listener := expect.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go server.Serve(listener)
	defer server.Close()
	mailer := &notify.Mailer{
		Server: listener.Addr().String(), From: "askback@example.com",
		To: func(desk.Notice) []string { return []string{"ada@example.com", "bob@example.com"} },
	}
	expect.Check(t, mailer.Send(context.Background(), notice))
	inbox.mu.Lock()
	defer inbox.mu.Unlock()
	if len(inbox.mails) != 1 || strings.Join(inbox.to, " ") != "ada@example.com bob@example.com" {
		t.Fatalf("%d mails to %q", len(inbox.mails), inbox.to)
	}
	got := expect.Must(mail.ReadMessage(strings.NewReader(inbox.mails[0])))(t)
	body := expect.Must(io.ReadAll(got.Body))(t)
	if got.Header.Get("Subject") != "deploy asks" || got.Header.Get("Message-ID") != "<NAME-KEY-asked-1@askback>" ||
		!strings.Contains(string(body), "4.2 für alle?\r\n.\r\nSubject: another") {
		t.Errorf("the mail is %v\n%s", got.Header, body)
	}
}

// mailbox keeps what a mail server takes.
type mailbox struct {
	mu    sync.Mutex
	to    []string
	mails []string
}

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return (*mailSession)(m), nil }

type mailSession mailbox

func (s *mailSession) Reset()                               {}
func (s *mailSession) Logout() error                        { return nil }
func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = append(s.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, string(data))
	return err
}
