package bound

import "time"

// Limits bound one call or one request, for every caller. All are set, and have the meaning of askback.Limits.
type Limits struct {
	Rounds       int // that end with input required, per call
	Questions    int // per round
	StateBytes   int // of a requestState as sent
	StoredBytes  int // of a state in a store
	MessageBytes int64
	Depth        int // of JSON
	RoundTTL     time.Duration
	CallTTL      time.Duration
	Within       time.Duration // the longest time for an answer that an author may give
	SessionCalls int           // open requests of one session
	Batch        int           // messages in one JSON-RPC batch
}
