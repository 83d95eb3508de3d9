package legacy

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/input"
)

// A tool that has never asked may do so, beside one that has. A question goes to the only call that is open, or whose
// arguments it names. Where nobody can tell, nobody is asked. A call that ends or begins meanwhile has not asked it.
func TestTheOwnerOfAQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		open           string // tools
		ends, begins   string
		message        string
		want, refusing string
	}{
		"one call":             {open: "quiet", message: "Sure?", want: "quiet"},
		"named":                {open: "loud quiet", message: "Is item-of-quiet right?", want: "quiet"},
		"both are named":       {open: "loud quiet", message: "item-of-quiet or item-of-loud?", refusing: `"loud", "quiet"`},
		"nothing is named":     {open: "loud quiet", message: "Sure?", refusing: "when the others have ended"},
		"the other one ends":   {open: "loud quiet", message: "Sure?", ends: "quiet", want: "loud"},
		"another one begins":   {open: "loud quiet", message: "Sure?", ends: "loud", begins: "late", want: "quiet"},
		"no call":              {message: "Sure?", refusing: "only while one of its tools is called"},
		"it ends before that":  {open: "quiet", ends: "quiet", message: "Sure?", want: "quiet"},
		"both end before that": {open: "loud quiet", ends: "loud quiet", message: "Sure?", refusing: "only while"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &pooled{pool: new(pool), changed: make(chan struct{})}
				s.pool.habits.note("quiet", false)
				s.pool.habits.note("loud", true)
				seats := make(map[string]*seat)
				for _, tool := range []string{"loud", "quiet", "late"} {
					seats[tool] = &seat{pooled: s, tool: tool}
				}
				begin := func(tool string) {
					seats[tool].join(&openCall{params: []byte(`{"arguments":{"item":"item-of-` + tool + `"}}`)})
				}
				for tool := range strings.FieldsSeq(c.open) {
					begin(tool)
				}
				var later sync.WaitGroup
				defer later.Wait()
				later.Go(func() {
					time.Sleep(time.Second)
					for tool := range strings.FieldsSeq(c.begins) {
						begin(tool)
					}
					for tool := range strings.FieldsSeq(c.ends) {
						seats[tool].leave()
					}
				})
				params, _ := json.Marshal(map[string]string{"message": c.message})
				at, err := s.owner(t.Context(), &client.Question{Method: input.MethodElicit, Message: c.message, Params: params})
				if at != seats[c.want] || c.refusing == "" && err != nil ||
					c.refusing != "" && (err == nil || !strings.Contains(err.Error(), c.refusing)) {
					t.Errorf("got %+v, %v", at, err)
				}
			})
		})
	}
}
