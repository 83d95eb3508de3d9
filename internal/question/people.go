package question

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/askback-mcp/askback/internal/journal"
)

// The prefixes of who may answer a question in place of its client.
const (
	UserPrefix  = "user:"
	GroupPrefix = "group:"
)

// MaxName bounds the name of a person or a group, and the key of a question that a store keeps, in bytes.
const MaxName = 256

// IsKey reports whether a text can be such a key: one line of UTF-8.
func IsKey(key string) bool {
	return key != "" && len(key) <= MaxName && utf8.ValidString(key) && !strings.ContainsFunc(key, unicode.IsControl)
}

// IsName reports whether a text can be such a name: a key that does not look like another because of space around it.
func IsName(name string) bool { return IsKey(name) && strings.TrimSpace(name) == name }

// TimeFormat is the layout of times, in UTC, in texts for clients.
const TimeFormat = "2006-01-02 15:04:05 UTC"

// Waits begins the message of a task that waits for people. A task that runs again has it until its worker writes.
const Waits = "Waiting for "

// AtDesk follows the text of [Awaited] if the question is for its caller, whose host could not ask it.
const AtDesk = " at the desk (your client did not show you the question)"

// Awaited names the people who are awaited, how many of them, and the deadline. A zero deadline means no deadline.
func Awaited(to []string, votes int, deadline time.Time) string {
	who := strings.Join(to, ", ")
	if votes > 1 {
		who = fmt.Sprintf("%d of %s", votes, who)
	}
	if !deadline.IsZero() {
		who += " until " + deadline.UTC().Format(TimeFormat)
	}
	return who
}

// Address makes q a question for others than the client of the call. Changed rules make it another question.
func (q *Question) Address(to []string, votes int) {
	if q.For, q.Votes = nil, votes; votes == 0 {
		q.Votes = 1
	}
	for _, who := range to {
		if !slices.Contains(q.For, who) {
			q.For = append(q.For, who)
		}
	}
	rules, _ := json.Marshal(struct { // strings and numbers
		Digest journal.Digest
		For    []string
		Votes  int
	}{q.Digest, q.For, q.Votes})
	q.Digest = digest(rules)
}
