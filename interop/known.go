package main

// known are the failures that are the peers' own. An entry covers all cells that it
// names, and each of them must fail with its words; one that passes makes the entry wrong.
var known = []failure{}

// failure is a peer's own. A list that is empty means all.
type failure struct {
	code       string // in the tables
	peer       string // whose it is
	clients    []string
	servers    []string
	tools      []string
	transports []string
	words      string // in the cell's fault
	note       string // what is wrong, and the evidence
}
