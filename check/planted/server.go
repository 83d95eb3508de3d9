package planted

import (
	"slices"
	"sync"
	"time"
)

// Options say which server is made.
type Options struct {
	Fault   string        // a name in Faults; empty is the correct server
	Seal    string        // a name in Seals: how a correct server protects its states; empty is the first one
	Refusal string        // a name in Refusals: how a correct server refuses a state; empty is the first one
	Key     []byte        // protects states, and is shared by replicas; nil is a new one
	TTL     time.Duration // of states; zero is ten minutes
	Stream  bool          // responses to calls are streams of events

	ActsOnce bool     // another call for the same city is an error, as of something that is deleted
	Known    []string // the cities that there are; nil is all
	Format   string   // of the name of a city in the schema of a tool
}

// has reports whether one of these faults is planted.
func (o *Options) has(faults ...string) bool { return slices.Contains(faults, o.Fault) }

// A server answers requests. Its parts do the work that needs nothing else of it.
type server struct {
	Options
	questions
	*sealer
	*states

	mu     sync.Mutex
	tasks  map[string]*taskState
	latest int // the number of the newest task, for predictable IDs
	open   int // first rounds without a retry
}

// questions asks, and reads the answers.
type questions struct{ Options }

// A sealer protects states.
type sealer struct {
	Options
	mu     sync.Mutex
	stored map[string][]byte
}

// states remembers calls between their rounds.
type states struct {
	Options
	codec codec
	mu    sync.Mutex
	ended map[string]bool // calls and states that are not taken again
}

// A codec turns the JSON of a state into the text that a client keeps, and back.
type codec struct {
	seal func(text []byte) string
	open func(token string) ([]byte, bool)
}

type taskState struct {
	id, owner, city string
	status          string
	script          []question
	step            int
	answers         map[string]string
	created         time.Time
	updated         time.Time
	result          any
}

// A target is something that asks: a tool, a prompt or a resource.
type target struct {
	method  string
	name    string
	text    string
	hints   map[string]any
	script  []question
	once    bool // ends at most once for each first round
	becomes bool // a task
}
