package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/askback-mcp/askback/client"
)

// taskJSON is a task as the tasks extension encodes it.
type taskJSON struct {
	ID            string              `json:"taskId"`
	Status        string              `json:"status"`
	Message       string              `json:"statusMessage,omitempty"`
	Created       time.Time           `json:"createdAt,omitzero"`
	Updated       time.Time           `json:"lastUpdatedAt,omitzero"`
	TTL           *int64              `json:"ttlMs"`
	PollInterval  int64               `json:"pollIntervalMs,omitempty"`
	InputRequests map[string]question `json:"inputRequests,omitempty"`
	Result        json.RawMessage     `json:"result,omitempty"`
	Error         json.RawMessage     `json:"error,omitempty"`
}

type question struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

func encodeTask(t *client.Task) taskJSON {
	e := taskJSON{
		ID: t.ID, Status: t.Status, Message: t.Message, Created: t.Created, Updated: t.Updated,
		PollInterval: t.PollInterval.Milliseconds(), Result: t.Result, Error: t.Error,
	}
	if t.TTL > 0 {
		e.TTL = new(t.TTL.Milliseconds())
	}
	if len(t.Questions) > 0 {
		e.InputRequests = make(map[string]question)
		for _, q := range t.Questions {
			e.InputRequests[q.Key] = question{q.Method, q.Params}
		}
	}
	return e
}

func taskText(t *client.Task, now time.Time) string {
	var b strings.Builder
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-8s %s\n", name, text)
		}
	}
	at := func(name string, at time.Time, past string) {
		if !at.IsZero() {
			row(name, moment(at, now, past))
		}
	}
	row("task", harmlessLine(t.ID, maxID))
	row("status", t.Status)
	row("message", harmlessLine(t.Message, 500))
	at("created", t.Created, "")
	at("updated", t.Updated, "")
	at("expires", expiry(t), "expired ")
	if t.Error != nil {
		row("error", reason(t.Error))
	}
	if len(t.Questions) > 0 {
		b.WriteString("\nasks\n")
	}
	for _, q := range t.Questions {
		b.WriteString("\n" + describe(q))
	}
	return b.String()
}

// reason tells on one line why a task failed.
func reason(raw json.RawMessage) string {
	var fault struct {
		Code    json.Number
		Message string
	}
	if json.Unmarshal(raw, &fault) != nil || fault.Message == "" {
		return harmlessLine(string(raw), 500)
	}
	if fault.Code == "" {
		return harmlessLine(fault.Message, 500)
	}
	return harmlessLine(fmt.Sprintf("%s (%s)", fault.Message, fault.Code), 500)
}

// expiry returns when the server forgets a task. Zero means that this is not known.
func expiry(t *client.Task) time.Time {
	if t.TTL == 0 || t.Created.IsZero() {
		return time.Time{}
	}
	return t.Created.Add(t.TTL)
}

func taskTable(list []*client.Task, now time.Time) string {
	if len(list) == 0 {
		return "no tasks\n"
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	// The ID is the last column. It is shown in full, and a long one would make every line as wide.
	fmt.Fprintln(table, "STATUS\tUPDATED\tEXPIRES\tMESSAGE\tID")
	for _, t := range list {
		updated, expires := "", ""
		if !t.Updated.IsZero() {
			updated = span(now.Sub(t.Updated)) + " ago"
		}
		if at := expiry(t); !at.IsZero() {
			expires = "in " + span(at.Sub(now))
			if at.Before(now) {
				expires = "expired"
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", t.Status, updated, expires, harmlessLine(t.Message, 60), harmlessLine(t.ID, maxID))
	}
	_ = table.Flush() // a strings.Builder does not fail
	return b.String()
}

func taskLine(t *client.Task) string {
	line := strings.ReplaceAll(t.Status, "_", " ")
	if message := harmlessLine(t.Message, columns); message != "" {
		line += ": " + message
	}
	return line
}

// maxID is the number of characters of an ID that are shown. A part of an ID would be of no use, so it is large.
const maxID = 4096
