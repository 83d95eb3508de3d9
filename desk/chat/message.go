package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/task"
)

// message shows a question. It does not depend on the time, so that an equal one need not be shown again.
func (c *Chat) message(q *desk.Question) *Message {
	m := &Message{
		Channel: c.opts.Channel(q), Name: q.Name, Key: q.Key, Asked: q.Asked,
		Title:   "A question of the tool " + foreign.Shown(foreign.Line(q.Target, 100)),
		Text:    foreign.Shown(q.Message),
		Facts:   facts(q),
		Preview: foreign.Shown(q.Preview), Arguments: arguments(q),
		Standing: standing(q), Open: q.Status == task.QuestionOpen, PageOnly: q.Mode != "form",
	}
	if c.opts.Page != "" {
		m.Link = strings.TrimSuffix(c.opts.Page, "/") + "/q/" + url.PathEscape(q.Name) + "/" + url.PathEscape(q.Key)
	}
	for range strictjson.Members(strictjson.Get(q.Schema, "properties")) {
		m.Form, m.Values = q.Schema, q.Proposal
		break
	}
	return m
}

func facts(q *desk.Question) []Fact {
	caller := "an anonymous caller"
	if q.Principal != "" {
		caller = line(q.Principal)
	}
	all := []Fact{{"Asked by", caller}, {"For", list(q.For)}}
	if q.Votes > 1 {
		all = append(all, Fact{"Votes needed", fmt.Sprint(q.Votes)})
	}
	if !q.Deadline.IsZero() {
		all = append(all, Fact{"Deadline", moment(q.Deadline)})
	}
	switch e := q.Excerpt; {
	case e != nil:
		all = append(all, Fact{"Arguments", fmt.Sprintf("%d bytes, SHA-256 %s", e.Size, e.SHA256)})
	case q.Arguments != nil:
		digest := sha256.Sum256(q.Arguments)
		all = append(all, Fact{"Arguments", fmt.Sprintf("%d bytes, SHA-256 %x", len(q.Arguments), digest)})
	}
	return append(all, Fact{"Task", line(q.Name)})
}

func arguments(q *desk.Question) string {
	if q.Excerpt != nil {
		return foreign.Shown(q.Excerpt.Begin) + "…"
	}
	if b := new(bytes.Buffer); json.Indent(b, q.Arguments, "", "  ") == nil {
		return foreign.Shown(foreign.Plain(b.Bytes()))
	}
	return ""
}

// standing says how a question stands, and why people have decided as they did.
func standing(q *desk.Question) string {
	if q.Status == task.QuestionOpen && q.Decision == nil {
		text := "Open"
		if q.Votes > 1 {
			text = fmt.Sprintf("Open: %d of %d votes", len(q.Count), q.Votes)
			for _, v := range q.Count {
				text += ", " + line(v.Who)
			}
		}
		if q.Claim != nil {
			text += fmt.Sprintf(". %s is about to answer, until %s", line(q.Claim.By), moment(q.Claim.Until))
		}
		return text + "."
	}
	text := line(q.Summary())
	if text != "" {
		text = strings.ToUpper(text[:1]) + text[1:] + "."
	}
	if q.Decision != nil {
		for _, by := range q.Decision.By {
			if by.Why != "" {
				text += fmt.Sprintf(" %s: “%s”", line(by.Who), line(by.Why))
			}
		}
	}
	return text
}

// gone is what is known of a question whose task has been deleted.
func gone(n desk.Notice) *desk.Question {
	q := &desk.Question{Name: n.Name, Target: n.Target, Principal: n.Principal, For: n.For, Votes: n.Votes, Asked: n.Asked,
		Deadline: n.Deadline, Status: task.QuestionWithdrawn}
	q.Key, q.Message = n.Key, n.Message
	if n.Kind == task.NoticeUnanswered {
		q.Decision = &desk.Decision{Action: "unanswered", When: n.Time}
	}
	return q
}

func line(text string) string { return foreign.Shown(foreign.Line(text, 500)) }

// list names who may answer, as far as a line has place.
func list(names []string) string { return line(strings.Join(names, ", ")) }

func moment(t time.Time) string { return t.UTC().Format("Mon 2 Jan 2006, 15:04 UTC") }
