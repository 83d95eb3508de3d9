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
	"time"
)

// The bearer tokens of the two principals.
const (
	Alice = "planted-token-of-alice-5e1c"
	Bob   = "planted-token-of-bob-9d07"
)

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
	seals := &sealer{Options: o, stored: map[string][]byte{}}
	return &server{Options: o, questions: questions{o}, sealer: seals, tasks: map[string]*taskState{},
		states: &states{Options: o, codec: seals.codecOf(), ended: map[string]bool{}}}
}

// Replicas returns two replicas of the server.
func Replicas(o Options) (http.Handler, http.Handler) {
	first := New(o)
	if o.Fault == "replica-own-key" {
		return first, New(o)
	}
	return first, first // nothing tells them apart
}
