package client

import (
	"encoding/json"
	"time"
)

// Round is one request and its response, for [Options.Observe].
//
// When a call has become a task, a Round reports each change of the task's status or
// message. Method then names the request or notification that brought the change, and Number
// is the number of the last round that asked anything.
type Round struct {
	Number        int // from 1; a resumed call continues to count
	Method        string
	Target        string                     // the tool, prompt or resource URI; empty for a task that is known by its ID
	Task          *Task                      // the task that the call has become, or nil
	Answers       map[string]json.RawMessage // in the request
	StateSent     int                        // bytes of requestState in the request
	Elapsed       time.Duration              // from request to response
	Questions     []*Question                // in the response, in its order
	StateReceived int                        // bytes of requestState in the response
	Pause         time.Duration              // until the retry, if the response asks nothing
	Final         bool                       // the response is the result
	Result        json.RawMessage            // the result as it came, if it is final and not from a cache
	Err           error                      // the request failed
}
