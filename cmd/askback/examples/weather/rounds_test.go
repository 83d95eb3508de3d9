package weather_test

import (
	"strings"
	"testing"

	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/cmd/askback/examples/weather"
)

// call calls get_weather, restarted in every round and with every response lost once. Without an answer nothing must
// be asked.
func call(t *testing.T, location string, login ...askbacktest.Answer) *askbacktest.Result {
	t.Helper()
	c := askbacktest.Call{Tool: "get_weather", Arguments: map[string]string{"location": location}}
	if len(login) > 0 {
		c.Answers = map[string]askbacktest.Answer{"github_login": login[0]}
	}
	return askbacktest.Run(t, weather.Register, c)
}

func TestRestartsAndLostResponsesChangeNothing(t *testing.T) {
	res := call(t, "New York", askbacktest.Accept(map[string]string{"name": "octocat"}))
	if want := "Current weather in New York:\nTemperature: 72°F\nConditions: Partly cloudy"; res.Text() != want {
		t.Errorf("got %q, want %q", res.Text(), want)
	}
}

func TestAnUnknownCityIsRefusedBeforeAnythingIsAsked(t *testing.T) {
	res := call(t, "New Yrok")
	if want := `unknown city "New Yrok"; did you mean New York?`; !res.Tool.IsError || res.Text() != want {
		t.Errorf("got %q, want the tool error %q", res.Text(), want)
	}
}

func TestWithoutAUsernameThereIsNoWeather(t *testing.T) {
	for _, login := range []askbacktest.Answer{
		askbacktest.Decline(), askbacktest.Cancel(), askbacktest.Accept(map[string]string{"name": " "}),
	} {
		res := call(t, "Zurich", login)
		if !res.Tool.IsError || !strings.HasPrefix(res.Text(), "a GitHub username is needed") {
			t.Errorf("got %q", res.Text())
		}
	}
}
