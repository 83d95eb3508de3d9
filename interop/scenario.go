package main

// What every cell is judged by: the text of the result, and what was on the wire.

const (
	form   = "elicitation/create"
	sample = "sampling/createMessage"
	roots  = "roots/list"
)

// scenario is one of the tools that every server has.
type scenario struct {
	title string
	tool  string
	text  string     // of the result
	asks  [][]string // the methods asked in each round, before the last request
}

var scenarios = []scenario{
	{"elicitation", "t_elicit", "Hello, octocat.", [][]string{{form}}},
	{"sampling", "t_sample", "The model says: Paris", [][]string{{sample}}},
	{"roots", "t_roots", "Roots: file:///work", [][]string{{roots}}},
	{"three at once", "t_three", "octocat, Paris, file:///work", [][]string{{form, sample, roots}}},
	{"three rounds", "t_rounds", "octocat of Paris, signed octocat", [][]string{{form}, {sample}, {form}}},
	{"state only", "t_state", "served the second time", [][]string{{}}},
	{"decline", "t_decline", "Nothing was deleted.", [][]string{{form}}},
}

// transport is a way to reach a server.
type transport struct {
	name  string // as the peers' programs take it
	title string
}

var transports = []transport{
	{"http", "HTTP, 2026-07-28"},
	{"stdio", "stdio, 2026-07-28"},
	{"legacy", "HTTP, 2025-11-25 (sessions)"},
}

var peers = []struct{ name, title string }{
	{"askback", "Askback"},
	{"gosdk", "Go SDK"},
	{"typescript", "TypeScript SDK"},
	{"mcpgo", "mcp-go"},
}

func peerTitle(name string) string {
	for _, p := range peers {
		if p.name == name {
			return p.title
		}
	}
	return name
}
