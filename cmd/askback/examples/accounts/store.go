package accounts

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// set is the accounts that one call linked with each other.
type set struct {
	Accounts []string `json:"accounts"` // such as "octocat (GitHub)"
	Number   int      `json:"number"`   // how many sets were linked with this one
}

// text tells which accounts were linked, and how many sets the server has linked so far.
func (s set) text() []mcp.Content {
	linked, sets := "no account", "sets"
	if len(s.Accounts) > 0 {
		linked = strings.Join(s.Accounts, " and ")
	}
	if s.Number == 1 {
		sets = "set"
	}
	return []mcp.Content{
		&mcp.TextContent{Text: "Linked " + linked + "."},
		&mcp.TextContent{Text: fmt.Sprintf("This server has linked %d %s of accounts.", s.Number, sets)},
	}
}

// store holds the sets that a server has linked. The zero store is empty and safe for concurrent use.
type store struct {
	mu   sync.Mutex
	sets []set
	keys []string // of the calls that linked them
}

// link links accounts and returns them as a set. For a key that was used before it returns the same set and links
// nothing. Without accounts it links nothing.
func (s *store) link(key string, accounts []string) set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.keys, key); i >= 0 {
		return s.sets[i]
	}
	if len(accounts) == 0 {
		return set{Number: len(s.sets)}
	}
	linked := set{accounts, len(s.sets) + 1}
	s.sets, s.keys = append(s.sets, linked), append(s.keys, key)
	return linked
}
