// Package notify sends an e-mail when something waits for people: Mailer.Send is a Notify of askback.DeskOptions, to be
// copied and changed. In examples/slack people answer in Slack. Nobody can answer by the e-mail alone, because somebody
// else may have forwarded it.
package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/smtp"
	"strings"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// Text returns what a person is told, in one paragraph.
func Text(n desk.Notice) string {
	who := strings.Join(n.For, ", ")
	switch n.Kind {
	case task.NoticeAsked:
		text := fmt.Sprintf("%s asks %s: %s", n.Target, who, n.Message)
		if !n.Deadline.IsZero() {
			text += " Please answer until " + n.Deadline.UTC().Format(time.RFC1123) + "."
		}
		return text + fmt.Sprintf(" (askback inbox answer STORE %s %s)", n.Name, n.Key)
	case task.NoticeDueSoon:
		return fmt.Sprintf("%s still waits for %s, until %s: %s", n.Target, who, n.Deadline.UTC().Format(time.RFC1123),
			n.Message)
	case task.NoticeDecided:
		return fmt.Sprintf("Decided: %s", n.Message)
	case task.NoticeUnanswered:
		return fmt.Sprintf("Nobody has decided in time: %s", n.Message)
	}
	return ""
}

// Mailer sends e-mails through a server.
type Mailer struct {
	Server string    // host and port
	Auth   smtp.Auth // nil: none
	From   string
	To     func(n desk.Notice) []string // the addresses of those who may answer
}

// Send sends an e-mail. What a question says cannot add a header or another message to it.
func (m *Mailer) Send(ctx context.Context, n desk.Notice) error {
	text, to := Text(n), m.To(n)
	if text == "" || len(to) == 0 {
		return nil
	}
	var message strings.Builder
	for _, header := range [][2]string{
		{"From", m.From},
		{"To", strings.Join(to, ", ")},
		{"Subject", mime.QEncoding.Encode("utf-8", n.Target+" asks")},
		{"Date", n.Time.Format(time.RFC1123Z)},
		{"Message-ID", "<" + n.ID + "@askback>"}, // the same each time, so that mail programs show it once
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "8bit"},
	} {
		fmt.Fprintf(&message, "%s: %s\r\n", header[0], header[1])
	}
	message.WriteString("\r\n" + strings.ReplaceAll(text, "\n", "\r\n") + "\r\n")
	return m.send(ctx, to, message.String())
}

// send is smtp.SendMail within the time of ctx.
func (m *Mailer) send(ctx context.Context, to []string, message string) error {
	host, _, err := net.SplitHostPort(m.Server)
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", m.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // a connection of TCP takes one
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return err
	}
	defer c.Close()
	if encrypts, _ := c.Extension("STARTTLS"); encrypts {
		if err := c.StartTLS(&tls.Config{ServerName: host}); err != nil {
			return err
		}
	}
	if m.Auth != nil {
		if err := c.Auth(m.Auth); err != nil {
			return err
		}
	}
	if err := c.Mail(m.From); err != nil {
		return err
	}
	for _, address := range to {
		if err := c.Rcpt(address); err != nil {
			return err
		}
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, message)
	return errors.Join(err, w.Close(), c.Quit())
}
