package weather_test

import (
	"testing"

	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/cmd/askback/examples/weather"
)

// The same result however the call is cut: restarted in every round, and with every
// response lost once.
func TestRestartsAndLostResponsesChangeNothing(t *testing.T) {
	res := askbacktest.Run(t, weather.Register, askbacktest.Call{
		Tool:      "get_weather",
		Arguments: map[string]string{"location": "New York"},
		Answers: map[string]askbacktest.Answer{
			"github_login": askbacktest.Accept(map[string]string{"name": "octocat"}),
		},
	})
	if want := "Current weather in New York:\nTemperature: 72°F\nConditions: Partly cloudy"; res.Text() != want {
		t.Errorf("got %q, want %q", res.Text(), want)
	}
}
