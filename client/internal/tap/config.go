package tap

// CustomMethod is the SDK's name for every request that it does not know.
const CustomMethod = "tasks"

// Methods that the tap reads.
const (
	MethodAcknowledged = "notifications/subscriptions/acknowledged"
	MethodTask         = "notifications/tasks"

	methodInitialize = "initialize"
	methodCancelled  = "notifications/cancelled"
)

// Config bounds what a connection reads, and makes the errors that say so.
type Config struct {
	MessageBytes int64 // bytes of one message
	Depth        int   // nesting of a result's JSON
	Questions    int   // states that are kept for a session's unanswered questions

	TooLarge func(most int64) error    // makes the error for a message of more than most bytes
	Broken   func(reason string) error // makes the error for a message that breaks the protocol

	// Echo returns the state of each question inside a session with its answer, over HTTP.
	Echo bool
}

// bound returns the error for a response of more bytes than a message may have.
func (c *Config) bound() error { return c.TooLarge(c.MessageBytes) }
