package main

import "slices"

// Every cell is judged by the text of the result and by the messages on the wire.

// section is a matrix: its clients against its servers, in its scenarios, over its transports.
type section struct {
	title      string // of its tables; the first has none
	prefix     string // of its peers' programs
	clients    []named
	servers    []named
	scenarios  []scenario
	transports []named
	judge      func(s scenario, transport string, messages []message) string
	private    bool // a cell has its HTTP server for itself
}

var sections = []*section{
	{clients: peers, servers: peers, scenarios: scenarios, transports: transports, judge: judgeWire},
	{"Tasks", "tasks-", taskPeers, taskPeers, taskScenarios, taskTransports, judgeTasks, true},
	{
		"The tasks extension", "extension-", []named{{"askback", "Askback"}, {"exttasks", "ext-tasks"}},
		[]named{{"askback", "Askback"}},
		extensionScenarios, []named{{"extension-http", "The tasks extension over HTTP, 2026-07-28"}}, judgeExtension, true,
	},
}

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
	asks  [][]string // the methods asked in each round, before the last request; of a task, all at once
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

// named is a peer, or a transport with its name as the peers' programs take it.
type named struct{ name, title string }

var transports = []named{
	{"http", "HTTP, 2026-07-28"},
	{"stdio", "stdio, 2026-07-28"},
	{"legacy", "HTTP, 2025-11-25 (sessions)"},
}

var peers = []named{
	{"askback", "Askback"},
	{"gosdk", "Go SDK"},
	{"typescript", "TypeScript SDK"},
	{"mcpgo", "mcp-go"},
}

// Tasks of 2025-11-25, in sessions.

var taskScenarios = []scenario{
	{"a question", "k_ask", "completed: Echo: octocat", [][]string{{form}}},
	{"failure", "k_fail", "failed: the job broke", nil},
	{"cancel", "k_slow", "cancelled, again -32602", nil},
	{"list", "k_list", "all listed: true, another -32602", nil},
	{"task only", "k_required", "Echo: octocat", [][]string{{form}}},
	{"refused without", "k_refused", "-32601", nil},
}

var taskTransports = []named{
	{"tasks-http", "Tasks over HTTP, 2025-11-25"},
	{"tasks-stdio", "Tasks over stdio, 2025-11-25"},
}

var taskPeers = []named{
	{"askback", "Askback"},
	{"typescript1", "TypeScript SDK v1"},
}

// Tasks of 2026-07-28, which the server makes of calls.

var extensionScenarios = []scenario{
	{"immediate", "x_now", "immediate, completed: now", nil},
	{"a question", "x_ask", "completed: Echo: octocat", [][]string{{form}}},
	{"three at once", "x_three", "completed: octocat, Paris, file:///work", [][]string{{form, sample, roots}}},
	{"two rounds", "x_rounds", "completed: octocat, octocat", [][]string{{form}, {form}}},
	{"structured", "x_structured", `completed: {"n":1}`, nil},
	{"a tool's error", "x_fail", "completed with isError: the job broke", nil},
	{"failed", "x_fault", "failed: -32050 the job broke", nil},
	{"cancelled", "x_slow", "cancelled, and read again: cancelled", nil},
	{"unknown", "x_unknown", "-32602", nil},
}

func peerTitle(name string) string {
	all := slices.Concat(peers, taskPeers)
	return all[slices.IndexFunc(all, func(p named) bool { return p.name == name })].title
}
