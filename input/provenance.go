package input

import "time"

// ChannelHost is the channel of answers that the client of the call gave by MCP. A person in its host may have decided
// on them, or a program.
const ChannelHost = "host"

// Provenance records who gave an answer, when, through which channel, and why.
type Provenance struct {
	// Who is the principal, or empty for an anonymous caller.
	Who string `json:"who"`
	// When has a resolution of a millisecond.
	When time.Time `json:"when"`
	// Channel names the way of the answer, such as ChannelHost.
	Channel string `json:"channel"`
	// Why is the reason that was given, in words. Empty means that none was given.
	Why string `json:"why,omitempty"`
}
