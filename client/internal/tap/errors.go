package tap

// StatusError says that a response was not JSON-RPC.
type StatusError struct {
	Code   int
	Status string
}

func (e *StatusError) Error() string { return "the server answered with HTTP status " + e.Status }

// AwayError says that the server did not answer a request, which may be sent again. It does
// not wrap its cause: the end of an HTTP connection is not the end of the session.
type AwayError struct{ Reason string }

func (e *AwayError) Error() string { return "the server did not answer: " + e.Reason }
