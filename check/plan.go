package check

import "github.com/askback-mcp/askback/check/plan"

// The description of a server by a user, in a file of JSON.
type (
	// A Plan is the whole file. All of it may be left out.
	Plan = plan.Plan
	// A PlannedCall is how a tool, a prompt or a resource is called.
	PlannedCall = plan.Call
	// A Duration is a [time.Duration] that is written as in "30s".
	Duration = plan.Duration
)

// ParsePlan reads the file of a plan.
func ParsePlan(data []byte) (Plan, error) { return plan.Parse(data) }

// answerTexts tells the texts of the answers, which no output may have.
func answerTexts(calls map[string]PlannedCall, tell func(string)) {
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			tell(v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	for _, c := range calls {
		for _, answer := range c.Answers {
			walk(answer)
		}
	}
}
