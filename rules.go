package askback

import (
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/consent"
)

// ToolCall is a call of a tool, as rules see it: see [DeskOptions].
type ToolCall struct {
	// Server is the operator's name of the server, or what tells it from others: its Options.Audience, or at a bridge the
	// name or the URL of the server behind.
	Server string `json:"server"`
	// Tool is the name of the tool at the server.
	Tool string `json:"tool"`
	// Definition is the tool as the server lists it, as JSON. It is empty for a tool that was added to the SDK's server.
	Definition string `json:"definition,omitempty"`
	// Annotations are what the server says of the tool. Nil has the defaults of the specification: the tool may destroy,
	// and reaches the outside. (server/tools, "Tool")
	Annotations *mcp.ToolAnnotations `json:"annotations,omitempty"`
	// Arguments are a JSON object. Empty is {}.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Caller is the principal. Nobody is asked for an anonymous caller: such a call is denied.
	Caller string `json:"caller"`
}

// Verdict is what is done with a call.
type Verdict struct {
	// Action is RuleDeny, RuleAsk or RuleAllow.
	Action string
	// Rule is the name of the rule that has decided. Empty means the default.
	Rule string
	// Reason says why a call is denied.
	Reason string
	// For says who is asked, each made by User or Group. Empty means the caller.
	For []string
	// Votes is how many of them must accept. Zero is one.
	Votes int
	// Within bounds the wait for them. Zero means as long as the call lives.
	Within time.Duration
	// Edit lets them edit the arguments. Only a bridge can do that: any other server denies the call.
	Edit bool
	// Remember is how long after an approval the same caller can make the same call again without a question, and Uses
	// bounds how often. Both have to be set, and Digest, too. The same call has the same server, tool and arguments, the
	// tool has the same definition, and a rule with the same Digest, For and Votes decides. Nothing is remembered if For
	// names the caller, or with Edit. People see and end what is remembered at the desk.
	Remember time.Duration
	Uses     int
	// Digest tells the rule from others, and from itself after a change.
	Digest string
	// Rules is the digest of all rules, for the record of the call. It may be empty.
	Rules string
	// Failed are the errors of the rules that could not be evaluated, each with the rule's name. The log has them, so they
	// tell no values of the call.
	Failed []string
}

// The actions of a [Verdict], from the strictest to the mildest.
const (
	RuleDeny  = consent.Deny
	RuleAsk   = consent.Ask
	RuleAllow = consent.Allow
)

func init() {
	consent.Of = func(call any) consent.Passing { return call.(*Call).c }
}
