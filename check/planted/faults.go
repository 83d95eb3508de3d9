package planted

// A Fault is a way in which the server can be wrong.
type Fault struct {
	Name  string
	Probe string // the ID of the probe that has to find it
	Level string // the level of the verdict
	Wrong string // what is wrong
}

// Faults are all faults.
var Faults = []Fault{
	// The state can be changed.
	{"plain-json", "state-forged", "fail", "the state is JSON, and believed"},
	{"plain-base64", "state-forged", "fail", "the state is JSON in Base64, and believed"},
	{"plain-hex", "state-forged", "fail", "the state is JSON in hexadecimal digits, and believed"},
	{"plain-gzip", "state-forged", "fail", "the state is compressed JSON in Base64, and believed"},
	{"plain-query", "state-forged", "fail", "the state has the form of a query, and is believed"},
	{"plain-arguments", "state-forged", "fail", "the state is the arguments in Base64, and the tool takes them from it"},
	{"jwt-none", "state-forged", "fail", "the state is a JWT, and the algorithm \"none\" is taken"},
	{"jwt-unverified", "state-forged", "fail", "the state is a JWT whose signature is not compared"},
	{"mac-part", "state-forged", "fail", "the MAC of the state does not cover the answers"},
	{"mac-optional", "state-cut", "warn", "a state without its MAC is taken"},
	{"mac-short", "state-changed", "warn", "the first byte of the MAC is compared only"},
	{"stream-cipher", "state-changed", "warn", "the state is encrypted without a MAC"},
	{"xor", "state-changed", "warn", "the state is encrypted by XOR with a fixed text"},
	{"any-state", "state-made-up", "fail", "a state is looked for, and never read where it does not verify"},
	{"any-length", "state-made-up", "fail", "a state that does not verify is taken if it is long enough"},

	{"id", "state-forged", "fail", "the state is the name of what the tool acts on, and believed"},
	{"id-compared", "state-forged", "fail", "the state is the argument itself, and compared with it"},
	{"bare-compared", "state-forged", "fail", "the state is JSON in Base64 without a MAC, and all of it is compared"},
	{"bare-expiry", "state-forged", "fail", "the state is a time without a MAC, and compared with the clock"},
	{"state-optional", "state-none", "fail", "a state is signed and compared, and may be left out"},

	// The state is bound to too little.
	{"principal-unbound", "state-principal", "fail", "the state does not hold the principal"},
	{"principal-claimed", "state-principal", "fail", "the principal is what the request says, not the token"},
	{"principal-ignored", "state-principal", "fail", "the state holds the principal, who is not compared"},
	{"arguments-unbound", "state-arguments", "warn", "the state does not hold the arguments"},
	{"arguments-names", "state-arguments", "warn", "the state holds the names of the arguments, not their values"},
	{"target-unbound", "state-other-target", "warn", "the state does not hold the name of the tool"},
	{"method-unbound", "state-other-method", "warn", "the state does not hold the method"},
	{"never-expires", "state-expired", "warn", "the state has no end"},
	{"expiry-ignored", "state-expired", "warn", "the state has an end, which is not compared"},
	{"twice", "state-twice", "fail", "what is to happen once happens as often as it is sent"},
	{"once-by-state", "state-after-end", "fail", "the last state is taken once, but not the call"},
	{"replica-own-key", "state-replica", "warn", "each replica has a key of its own"},
	{"shared-key", "state-other-server", "fail", "every deployment has the key of the example"},
	{"token-in-state", "state-credentials", "warn", "the state is signed, and holds the token of the request in clear"},
	{"token-in-gzip", "state-credentials", "warn", "the state is compressed and signed, and holds the token"},
	{"checksum", "state-clear", "warn", "the state has a checksum without a key"},

	// An answer is taken for what it is not.
	{"declined", "answers-declined", "fail", "the content of a declined form is taken"},
	{"cancelled", "answers-cancelled", "fail", "the content of a cancelled form is taken"},
	{"declined-default", "answers-declined", "warn", "a declined form is taken with the defaults of its fields"},
	{"action-ignored", "answers-declined", "fail", "the action is not read at all"},
	{"action-unknown", "answers-action", "warn", "an unknown action is taken as accepted"},
	{"schema-ignored", "answers-schema", "warn", "the content is not compared with the schema"},
	{"kind-ignored", "answers-kind", "warn", "the text of a completion is taken for a form"},
	{"key-ignored", "answers-key", "warn", "the first answer is taken, and its key is not read"},
	{"unasked", "answers-unasked", "warn", "an answer that nobody asked for gets into the result"},
	{"missing", "answers-none", "warn", "the server goes on without an answer"},
	{"missing-refused", "answers-missing", "note", "a missing answer is an error"},

	// A question may not be asked so.
	{"undeclared", "ask-undeclared", "fail", "a client without capabilities is asked"},
	{"undeclared-mode", "ask-undeclared-mode", "fail", "a client that only opens URLs is asked by a form"},
	{"undeclared-kind", "ask-undeclared-kind", "fail", "a client that only samples is asked by a form"},
	{"empty-round", "ask-empty", "fail", "a result asks for input without a question and without a state"},
	{"other-kind", "ask-kind", "fail", "a question is of a method that may not be asked"},
	{"other-request", "ask-other-request", "fail", "the list of tools is answered with a question"},
	{"password", "ask-password", "fail", "a form asks for a password"},
	{"card", "ask-password", "fail", "a form asks for the number of a card"},
	{"url-token", "ask-url-credentials", "fail", "the URL of a question has the token of the request in its query"},
	{"url-user", "ask-url-credentials", "fail", "the URL of a question has a user and a password"},
	{"url-plain", "ask-url-plain", "warn", "the URL of a question is plain HTTP"},
	{"link", "ask-link", "note", "the text of a form has a link"},

	// A task is open to others, or does not keep its rules.
	{"task-get-open", "task-get", "fail", "another principal reads a task"},
	{"task-update-open", "task-update", "fail", "another principal answers for a task"},
	{"task-cancel-open", "task-cancel", "fail", "another principal cancels a task"},
	{"task-listen-open", "task-subscribe", "fail", "another principal hears of a task"},
	{"task-list-open", "task-list", "fail", "the list of tasks has the tasks of all principals"},
	{"task-numbers", "task-guess", "warn", "the IDs of tasks are numbers"},
	{"task-times", "task-guess", "warn", "the IDs of tasks are times"},
	{"task-answered-twice", "task-answered-twice", "warn", "a later answer takes the place of one that was given"},
	{"task-answered-late", "task-after-end", "fail", "an answer changes a task that has ended"},
	{"task-cancelled-late", "task-terminal", "fail", "a task that has ended is cancelled"},
	{"task-no-result", "task-result", "fail", "a task completes without a result"},
	{"task-text-result", "task-result", "fail", "the result of a task is no result of a tool"},
	{"task-undeclared", "task-undeclared", "fail", "a client without the extension gets a task"},
	{"task-unknown", "task-missing", "fail", "a task that does not exist is answered with another code"},
	{"task-one-key", "task-key", "fail", "two questions of a task have one key"},

	// The endpoint believes what others did not read so.
	{"http-method", "http-method", "fail", "the header Mcp-Method is not compared"},
	{"http-name", "http-name", "fail", "the header Mcp-Name is not compared"},
	{"http-version", "http-version", "fail", "the header MCP-Protocol-Version is not compared"},
	{"http-duplicate", "http-duplicate", "note", "a body may have a member twice"},
	{"http-utf8", "http-utf8", "note", "a body may have bytes that are no UTF-8"},
	{"http-depth", "http-depth", "note", "a body may be nested without end"},
	{"http-origin", "http-origin", "fail", "the header Origin is not read"},
	{"http-rebinding", "http-rebinding", "fail", "the header Origin is compared with the header Host only"},

	// The load of one client has no bound.
	{"load-body", "load-body", "warn", "a body may be of any size"},
	{"load-answers", "load-answers", "warn", "any number of answers is kept in the state"},
	{"load-half", "load-half", "warn", "half a request is waited for without end"},
	{"load-abandoned", "load-abandoned", "warn", "every abandoned round is kept, until there are too many"},
}
