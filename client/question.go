package client

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Question is an input request of a server.
type Question = input.Question

// parse sets the fields of a question that are read from its Params.
func parse(q *Question) error {
	if err := q.Parse(); err != nil {
		return &ProtocolError{err.Error()}
	}
	if q.Method == input.MethodElicit && q.Mode != "form" && q.Mode != "url" {
		return &UndeclaredError{Key: q.Key, Kind: "elicitation." + q.Mode}
	}
	return nil
}

// digest tells questions with the same key apart.
func digest(q *Question) [32]byte {
	data, _ := json.Marshal([]any{q.Method, q.Params}) // sound JSON always marshals
	return strictjson.Digest(data)
}

// parseQuestions reads the inputRequests of a result, whose JSON has been checked. It returns
// nil where they are missing.
func parseQuestions(result []byte, server *mcp.Implementation, limits *Limits) ([]*Question, error) {
	requests := strictjson.Get(result, "inputRequests")
	if requests == nil {
		return nil, nil
	}
	if strictjson.TypeOf(requests) != strictjson.TypeObject {
		return nil, &ProtocolError{"inputRequests is not an object"}
	}
	questions := []*Question{}
	for name, value := range strictjson.Members(requests) {
		if len(questions) == limits.Questions {
			return nil, limits.questionsReached()
		}
		q := &Question{Key: string(name), Server: server, Params: slices.Clone(strictjson.Get(value, "params"))}
		if strictjson.TypeOf(value) != strictjson.TypeObject {
			return nil, &ProtocolError{fmt.Sprintf("the question %q is not an object", q.Key)}
		}
		q.Method, _ = strictjson.String(strictjson.Get(value, "method"))
		if err := parse(q); err != nil {
			return nil, err
		}
		questions = append(questions, q)
	}
	return questions, nil
}
