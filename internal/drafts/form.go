package drafts

import (
	"net/http"
)

// Form is the form of a draft's responses. The query of the endpoint's URL names it, as draft=FORM. What a client
// sends needs no name: the edge recognises every form of it.
type Form string

// The forms of the proposals' responses.
const (
	// MRTR1 is the first draft of the MRTR proposal: an IncompleteResult without resultType; a task is Working,
	// input_required or Completed.
	MRTR1 Form = "mrtr-1"
	// MRTR2 is its second draft: the statuses are in lower case. It is the form for a draft's request whose URL names
	// no form.
	MRTR2 Form = "mrtr-2"
	// Tasks1 and Tasks2 are the options of the proposal on the structure of task messages: tasks/result answers with
	// the request itself, or with content that wraps it.
	Tasks1 Form = "tasks-1"
	Tasks2 Form = "tasks-2"
	// State1 and State2 are the options of the state proposal: dependent_requests with one state for all, or with a
	// state for each.
	State1 Form = "state-1"
	State2 Form = "state-2"
	// State is the state proposal inside sessions: the server's requests carry a state. The URL has to name it,
	// because some clients refuse a request with a member that they do not know. Outside of sessions it has no
	// effect.
	State Form = "state"
)

var forms = []Form{MRTR1, MRTR2, Tasks1, Tasks2, State1, State2, State}

func formOf(r *http.Request) Form { return Form(r.URL.Query().Get("draft")) }
