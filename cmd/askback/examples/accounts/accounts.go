// Package accounts is an example of a tool in a rolling upgrade: link_accounts asks for two logins in one round, and
// each release asks a little differently. A call that began under one release can end under another: an answered
// question is asked again only if it has changed, and answers to questions that no release asks any more are ignored.
package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// question asks for the login at one provider.
type question struct {
	provider, key, message string
	email                  bool // the login has to be an address
}

var (
	github    = question{"GitHub", "github_login", "Please provide your GitHub username", false}
	google    = question{"Google", "google_login", "Please provide your Google username", false}
	microsoft = question{"Microsoft", "microsoft_login", "Please provide your Microsoft username", false}
	reworded  = question{"GitHub", "github_login", "Which GitHub account shall be linked? Please provide its username",
		false}
	reformed = question{"Microsoft", "microsoft_login", "Please provide your Microsoft username", true}
)

// ask asks the question in a form of its kind.
func (q question) ask(call *askback.Call) (login, error) {
	if q.email {
		answer, err := askback.Elicit[address](call, q.key, q.message)
		return login(answer), err
	}
	return askback.Elicit[login](call, q.key, q.message)
}

// releases are the questions of each release, from release 1.
var releases = [][2]question{
	{github, google},
	{github, microsoft},
	{reworded, reformed},
}

type login struct {
	Name string `json:"name"`
}

type address struct {
	Name string `json:"name" format:"email"`
}

// Register adds the tool link_accounts to s as a release has it. Release 1 asks for logins at GitHub and Google,
// release 2 at GitHub and Microsoft; release 3 rewords the question about GitHub, and wants an email address at
// Microsoft in the same words as before. Register panics for any other release. Each server keeps its links in memory.
func Register(s *askback.Server, release int) {
	questions := releases[release-1]
	links := &store{sets: make(map[string]set)}
	tool := &mcp.Tool{Name: "link_accounts", Description: "Link your accounts at other services; " +
		"those that you decline are left out"}

	askback.AddTool(s, tool, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
		var accounts []string
		var asked error
		for _, q := range questions {
			answer, err := q.ask(call)
			if _, declined := errors.AsType[*askback.DeclinedError](err); !declined { // an account that was declined is left out
				asked = errors.Join(asked, err)
			}
			if name := strings.TrimSpace(answer.Name); name != "" {
				accounts = append(accounts, fmt.Sprintf("%s (%s)", name, q.provider))
			}
		}
		if asked != nil && !errors.Is(asked, askback.ErrInputRequired) {
			return nil, asked
		}

		// There is no need to return before the step: none runs while a question is open.
		linked, err := askback.Do(ctx, call, "link", func(context.Context) (set, error) {
			return links.link(call.IdempotencyKey("link"), accounts), nil
		})
		if err := errors.Join(asked, err); err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: linked.text()}, nil
	})
}

// set is the accounts that one call linked with each other.
type set struct {
	Accounts []string `json:"accounts"` // such as "octocat (GitHub)"
	Number   int      `json:"number"`   // how many sets were linked with this one
}

// text tells which accounts were linked, and how many sets the server has linked so far.
func (s set) text() []mcp.Content {
	linked, sets := cmp.Or(strings.Join(s.Accounts, " and "), "no account"), "sets"
	if s.Number == 1 {
		sets = "set"
	}
	return []mcp.Content{
		&mcp.TextContent{Text: "Linked " + linked + "."},
		&mcp.TextContent{Text: fmt.Sprintf("This server has linked %d %s of accounts.", s.Number, sets)},
	}
}

// store holds the sets that a server has linked. It is safe for concurrent use.
type store struct {
	mu   sync.Mutex
	sets map[string]set // by the keys of the calls that linked them
}

// link links accounts and returns them as a set. For a key that was used before it returns the same set and links
// nothing. Without accounts it links nothing.
func (s *store) link(key string, accounts []string) set {
	s.mu.Lock()
	defer s.mu.Unlock()
	linked, found := s.sets[key]
	switch {
	case found:
		return linked
	case len(accounts) == 0:
		return set{Number: len(s.sets)}
	}
	s.sets[key] = set{accounts, len(s.sets) + 1}
	return s.sets[key]
}
