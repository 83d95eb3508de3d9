// Package weather is an example of a tool that asks one question: get_weather answers with sample data, once the
// user has given a GitHub username.
package weather

import (
	"context"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

type args struct {
	Location string `json:"location" jsonschema:"the city, such as New York"`
}

type githubLogin struct {
	Name string `json:"name"`
}

var errNoLogin = errors.New("a GitHub username is needed to look up the weather; " +
	"please call get_weather again and provide one")

// Register adds the tool get_weather to s.
func Register(s *askback.Server) {
	observations := bundled()
	tool := &mcp.Tool{Name: "get_weather", Description: "Current weather in a city (sample data)"}

	askback.AddTool(s, tool, func(ctx context.Context, call *askback.Call, in args) (string, error) {
		// First what needs no answer: nobody is to be asked for the sake of a call that fails anyway.
		observation, err := observations.find(in.Location)
		if err != nil {
			return "", err
		}

		login, err := askback.Elicit[githubLogin](call, "github_login", "Please provide your GitHub username")
		if _, declined := errors.AsType[*askback.DeclinedError](err); declined {
			return "", errNoLogin
		}
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(login.Name) == "" {
			return "", errNoLogin
		}

		return observation.String(), nil
	})
}
