package main

import "fmt"

// The revisions.
const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

// own is Askback.
const own = "askback"

// section is a set of cells: Askback with each of its peers, in each scenario, over each transport.
type section struct {
	title            string
	clients, servers []string // of own's server, and of its client
	scenarios        []scenario
	transports       []transport
}

// transport is a way between a client and a server, as their programs name it.
type transport struct{ name, revision string }

// scenario is a tool that every server has, and the text that every client prints of its call.
type scenario struct{ tool, text string }

var sections = []*section{
	{
		"Tools that ask", []string{own, "gosdk", "typescript", "mcpgo"}, []string{"gosdk", "typescript", "mcpgo"},
		[]scenario{
			{"t_elicit", "Hello, octocat."},
			{"t_sample", "The model says: Paris"},
			{"t_roots", "Roots: file:///work"},
			{"t_three", "octocat, Paris, file:///work"},
			{"t_rounds", "octocat of Paris, signed octocat"},
			{"t_state", "served the second time"},
			{"t_decline", "Nothing was deleted."},
		},
		[]transport{{"http", modern}, {"stdio", modern}, {"legacy", legacy}},
	},
	{ // some clients give up at the third round without a question
		"Many checkpoints", []string{own, "gosdk", "typescript", "mcpgo"}, nil,
		[]scenario{{"t_checkpoints", "done"}, {"t_between", "done"}},
		[]transport{{"http", modern}, {"stdio", modern}},
	},
	{
		"Tasks of 2025-11-25", []string{own, "typescript1"}, []string{"typescript1"},
		[]scenario{
			{"k_ask", "completed: Echo: octocat"},
			{"k_fail", "failed: the job broke"},
			{"k_slow", "cancelled, again -32602"},
			{"k_list", "all listed: true, another -32602"},
			{"k_required", "Echo: octocat"},
			{"k_refused", "-32601"},
		},
		[]transport{{"http", legacy}, {"stdio", legacy}},
	},
	{
		"The tasks extension", []string{own, "exttasks"}, nil,
		[]scenario{
			{"x_now", "immediate, completed: now"},
			{"x_ask", "completed: Echo: octocat"},
			{"x_three", "completed: octocat, Paris, file:///work"},
			{"x_rounds", "completed: octocat, octocat"},
			{"x_structured", `completed: {"n":1}`},
			{"x_fail", "completed with isError: the job broke"},
			{"x_fault", "failed: -32050 the job broke"},
			{"x_slow", "cancelled, and read again: cancelled"},
			{"x_unknown", "-32602"},
		},
		[]transport{{"http", modern}},
	},
	{
		"Events by webhook", []string{"aisdk"}, nil,
		[]scenario{
			{"e_listed", "call.ended, question.asked, question.decided"},
			{"e_ended", "call.ended: e_job completed"},
			{"e_refreshed", "the same: true, later: true, call.ended: e_job completed"},
			{"e_ends", "-32023"},
		},
		[]transport{{"http", modern}},
	},
}

// cell is one run of one scenario.
type cell struct {
	section        *section
	client, server string
	scenario       scenario
	transport      transport
	fault          string // why it failed, or empty
}

func (c *cell) String() string {
	return fmt.Sprintf("%s/%s/%s/%s", c.client, c.server, c.scenario.tool, c.transport.name)
}

func allCells() (cells []*cell) {
	for _, s := range sections {
		var pairs [][2]string
		for _, client := range s.clients {
			pairs = append(pairs, [2]string{client, own})
		}
		for _, server := range s.servers {
			pairs = append(pairs, [2]string{own, server})
		}
		for _, t := range s.transports {
			for _, pair := range pairs {
				for _, scenario := range s.scenarios {
					cells = append(cells, &cell{s, pair[0], pair[1], scenario, t, ""})
				}
			}
		}
	}
	return cells
}
