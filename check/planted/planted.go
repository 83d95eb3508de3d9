// Package planted is a server that asks, correct by default and with one planted fault by a switch. It judges the
// checker: each fault has to be found by the probe that is meant, and the correct server has to be left in peace.
//
//	http.Handle("/mcp", planted.New(planted.Options{Fault: "declined"}))
//
// It speaks 2026-07-28 over HTTP and is written on net/http alone, since a library that keeps the rules could not break
// them. It has two principals, whose bearer tokens are [Alice] and [Bob].
package planted

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"slices"
	"sync"
	"time"
)

// The bearer tokens of the two principals.
const (
	Alice = "planted-token-of-alice-5e1c"
	Bob   = "planted-token-of-bob-9d07"
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

// Refusals are the ways in which a correct server answers a state that it refuses: by an error of the protocol, an
// error of the tool, a text, and the first question once more.
var Refusals = []string{"error", "tool-error", "text", "afresh"}

// New returns the server. It panics for a name that is unknown.
func New(o Options) http.Handler {
	if o.Fault != "" && !slices.ContainsFunc(Faults, func(f Fault) bool { return f.Name == o.Fault }) {
		panic("planted: there is no fault " + o.Fault)
	}
	if o.TTL == 0 {
		o.TTL = 10 * time.Minute
	}
	if o.Key == nil || o.Fault == "replica-own-key" {
		o.Key = make([]byte, 32)
		_, _ = rand.Read(o.Key) // crypto/rand.Read never fails
	}
	if o.Fault == "shared-key" {
		key := sha256.Sum256([]byte("the key of the example"))
		o.Key = key[:]
	}
	s := &server{Options: o, ended: map[string]bool{}, tasks: map[string]*taskState{}, stored: map[string][]byte{}}
	s.codec = s.codecOf()
	return s
}

// Replicas returns two replicas of the server.
func Replicas(o Options) (http.Handler, http.Handler) {
	first := New(o)
	if o.Fault == "replica-own-key" {
		return first, New(o)
	}
	return first, first // nothing tells them apart
}

type server struct {
	Options
	codec codec

	mu     sync.Mutex
	ended  map[string]bool // calls and states that are not taken again
	stored map[string][]byte
	tasks  map[string]*taskState
	latest int // the number of the newest task, for predictable IDs
	open   int // first rounds without a retry
}

// has reports whether one of these faults is planted.
func (s *server) has(faults ...string) bool { return slices.Contains(faults, s.Fault) }
