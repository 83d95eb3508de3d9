package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// order is one machine that a customer wants.
type order struct {
	number    int
	extension bool // the dialect of its task: the extension's or the proposals'
	cancel    bool // the customer will change their mind
	patience  time.Duration

	cpus, memory      int
	network, hostname string
	misfit            bool // the first answer does not fit the question
	badHostname       bool // the first host name is not valid

	// The outcome.
	name     string          // of the machine: a new one for each attempt at creating the task
	id       string          // of the task, once it is acknowledged
	answered map[string]bool // questions, by their keys, whose answer was acknowledged
	ended    string          // status
	result   outcome
}

// outcome is the structured result of provision_vm.
type outcome struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	ID       string `json:"id"`
	Path     string `json:"path"`
	Network  string `json:"network"`
	Hostname string `json:"hostname"`
	Files    []file `json:"files"`
	SHA256   string `json:"sha256"`
}

type file struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// newOrder makes the choices of one customer.
func newOrder(seed uint64, number int) *order {
	r := rand.New(rand.NewPCG(seed, uint64(number)+1))
	return &order{
		number:      number,
		answered:    make(map[string]bool),
		extension:   r.IntN(3) > 0,
		cancel:      r.IntN(8) == 0,
		patience:    time.Duration(r.Int64N(int64(2500 * time.Millisecond))),
		cpus:        1 + r.IntN(8),
		memory:      128 << r.IntN(6),
		network:     []string{"bridge", "nat", "isolated"}[r.IntN(3)],
		hostname:    fmt.Sprintf("host-%d", r.IntN(1_000_000)),
		misfit:      r.IntN(8) == 0,
		badHostname: r.IntN(8) == 0,
	}
}

func isTerminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}

// params are the params of a request about the task.
func (o *order) params() map[string]any { return map[string]any{"taskId": o.id} }

func (o *order) String() string {
	dialect := "proposal"
	if o.extension {
		dialect = "extension"
	}
	return fmt.Sprintf("task %s (%s, %s)", o.id, o.name, dialect)
}
