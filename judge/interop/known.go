package main

// failure is a failure that is a peer's own. It covers all cells that it names, and each
// of them must fail with its words; one that passes makes the entry wrong.
type failure struct {
	code       string // in the tables
	peer       string // whose it is
	clients    []string
	servers    []string
	tools      []string
	transports []string
	words      string // in the cells' faults
	note       string // what is wrong, and the evidence
}

var (
	all    = []string{"askback", "gosdk", "typescript", "mcpgo"}
	modern = []string{"http", "stdio"}
	legacy = []string{"legacy"}

	tasks = []string{"tasks-http", "tasks-stdio"}
)

// known are the failures that the peers' code explains. Lines are of the versions in go.mod and package.json.
var known = []failure{
	{
		code: "G1", peer: "gosdk",
		clients: []string{"gosdk"}, servers: []string{"typescript", "mcpgo"},
		tools: []string{"t_state"}, transports: modern,
		words: "returned input_required as the result",
		note: `The client takes a result with requestState and without inputRequests for the final one (mcp/mrtr.go:91),
			and hands it out with a nil error. The specification makes inputRequests optional (basic/patterns/mrtr, server
			requirements 2 and 6), and a client may send such a request again by itself (client requirement 1). The SDK's
			docs/client.md, "Multi Round-Trip Requests", says that it does so if NeedsInput() is true, as it is here. Its own
			server and Askback send an empty inputRequests instead, which works.`,
	},
	{
		code: "G2", peer: "gosdk",
		clients: []string{"gosdk"}, servers: []string{"typescript", "mcpgo"},
		tools: []string{"t_roots", "t_three"}, transports: modern,
		words: "unexpected end of JSON input",
		note: `The client cannot read a roots/list without params: InputRequestMap.UnmarshalJSON unmarshals the params
			that are not there (mcp/protocol.go:121). The schema's ListRootsRequest requires only method.`,
	},
	{
		code: "G3", peer: "gosdk",
		clients: []string{"askback", "typescript", "mcpgo"}, servers: []string{"gosdk"},
		tools: []string{"t_rounds"}, transports: legacy,
		words: `the result says "" instead of`,
		note: `In a session the server asks for one round only and runs the handler "exactly once" more (docs/server.md,
			"Talking to legacy clients"; mcp/mrtr.go:162). The second round's inputRequests go to the client inside a result
			without content, which in 2025-11-25 is a final result: that revision has no inputRequests.`,
	},
	{
		code: "G4", peer: "gosdk",
		clients: []string{"gosdk"}, servers: []string{"gosdk"},
		tools: []string{"t_rounds"}, transports: legacy,
		words: "2 requests tools/call instead of 1",
		note: `As G3, but the SDK's own client understands the stray inputRequests and retries with inputResponses: the
			text is right, and the two speak something that is not 2025-11-25.`,
	},
	{
		code: "G5", peer: "gosdk",
		clients: all, servers: []string{"gosdk"},
		tools: []string{"t_state"}, transports: legacy,
		words: "the server is busy, retry later",
		note: `By design: 2025-11-25 has nothing that says "come again", and the server answers with an error
			(mcp/mrtr.go:152). Nobody is wrong; Askback and the TypeScript SDK run the handler again inside the open request.`,
	},
	{
		code: "M1", peer: "mcpgo",
		clients: all, servers: []string{"mcpgo"},
		tools: []string{"t_state"}, transports: legacy,
		words: "the server is busy, retry later",
		note:  `By design, as G5: ErrLoadShedding (server/mrtr.go:37 and 214).`,
	},
	{
		code: "T1", peer: "typescript1",
		clients: []string{"askback", "typescript1"}, servers: []string{"typescript1"},
		tools: []string{"k_refused"}, transports: tasks,
		words: "not refused: ",
		note: `A tool that must be called as a task answers a call without one with a result whose text is "MCP error
			-32601 …" and isError, not with the error -32601 that servers "MUST return" (2025-11-25, basic/utilities/tasks,
			"Tool-Level Negotiation", 2.3): McpServer throws it (dist/esm/server/mcp.js:168) and catches it itself (:191).`,
	},
}
