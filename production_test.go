package askback_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// The order of "Who sees what" in docs/proof/how-a-call-travels.md: if one of these layers refuses a request, the
// layers before it have seen the request, and the layers after it have not.
func TestOrderOfMiddleware(t *testing.T) {
	order := []string{"principal", "middleware", "authorize", "handler"}
	for i, refusing := range order {
		t.Run(refusing, func(t *testing.T) {
			var seen []string
			see := func(who string) error {
				if !slices.Contains(seen, who) { // a caller may be named twice
					seen = append(seen, who)
				}
				if who == refusing {
					return errors.New("refused")
				}
				return nil
			}
			observed := ""
			srv := harness.NewServer(t, &askback.Options{
				Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", see("principal") },
				Authorize: func(context.Context, askback.Access) error { return see("authorize") },
				Observe: func(ctx context.Context, op *askback.Operation) (context.Context, func()) {
					return ctx, func() { observed = op.Outcome }
				},
			})
			srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
					if err := see("middleware"); err != nil {
						return nil, err
					}
					return next(ctx, method, req)
				}
			})
			askback.AddTool(srv, &mcp.Tool{Name: "close_bug"}, func(context.Context, *askback.Call, struct{}) (string, error) {
				return "", see("handler")
			})
			harness.Request{Target: "close_bug"}.Send(t, srv.HTTPHandler(nil))
			expect.Diff(t, "seen by", order[:i+1], seen)
			want := map[string]string{"principal": "refused", "authorize": "refused", "handler": "failed"}[refusing]
			expect.Equal(t, "Observe is told", observed, want)
		})
	}
}

// Every log message that docs/production.md quotes is one of the code. An ellipsis stands for the rest of a message.
func TestProductionGuideQuotesTheLog(t *testing.T) {
	if _, err := os.Stat("cmd/askback"); err != nil {
		t.Skip("cmd/askback is a module of its own, which is not here")
	}
	messages := make(map[string]bool) // every text in the code
	literal := regexp.MustCompile(`"(?:[^"\\\n]|\\.)+"`)
	expect.Check(t, fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (strings.HasPrefix(path, ".git") || path == "judge/interop") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		for _, quoted := range literal.FindAllString(string(source), -1) {
			if text, err := strconv.Unquote(quoted); err == nil {
				messages[text] = true
			}
		}
		return err
	}))

	quoted := 0
	for _, found := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(read(t, "docs/production.md"), -1) {
		text, open := strings.CutSuffix(found[1], "…")
		text = strings.TrimRight(text, " ")
		isCommand := strings.HasPrefix(text, "askback ")
		if isCommand || !strings.HasPrefix(text, "askback: ") && !strings.HasPrefix(text, "task: ") &&
			strings.Count(text, " ") < 4 {
			continue
		}
		quoted++
		if !messages[text] && !(open && hasPrefix(messages, text)) {
			t.Errorf("nothing logs %q", found[1])
		}
	}
	if quoted < 20 {
		t.Errorf("the page quotes %d messages", quoted)
	}
}

func hasPrefix(messages map[string]bool, prefix string) bool {
	for message := range messages {
		if strings.HasPrefix(message, prefix) {
			return true
		}
	}
	return false
}

// docs/production.md says of each reason that a state is refused for what to do about it.
func TestProductionGuideHasEveryReason(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/production.md"), "### Calls are refused\n")
	section, _, _ = strings.Cut(section, "\n### ")
	reasons := 0
	for file, pattern := range map[string]string{
		"seal/errors.go":           `Reason = "(\w+)"`,
		"internal/home/carried.go": `(?:refuse|recallOrRefuse)\(ctx, "(\w+)"`,
		"internal/home/states.go":  `return nil, "(\w+)"`,
	} {
		for _, reason := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, file), -1) {
			if reasons++; !regexp.MustCompile("(?m)^\\|[^|]*`" + reason[1] + "`").MatchString(section) {
				t.Errorf("there is no row for %s", reason[1])
			}
		}
	}
	if reasons < 18 {
		t.Errorf("found %d reasons in the code", reasons)
	}
}

// The alerts and the dashboard of examples/fleet use metrics, labels and values that exist, under the names that
// Prometheus makes of OpenTelemetry's. Each alternative of a value is one that a server can set.
func TestMonitoringNamesMetrics(t *testing.T) {
	if _, err := os.Stat("otelaskback"); err != nil {
		t.Skip("otelaskback is a module of its own, which is not here")
	}
	metrics := make(map[string]bool)
	made := regexp.MustCompile(`m\.(?:Float|Int)64(\w+)\("([a-z_.]+)", metric\.WithUnit\("(.+?)"\)`)
	for _, found := range made.FindAllStringSubmatch(read(t, "otelaskback/metrics.go"), -1) {
		kind, name, unit := found[1], found[2], found[3]
		name = underscores(name) + map[string]string{"s": "_seconds", "By": "_bytes"}[unit]
		switch kind {
		case "Counter":
			metrics[name+"_total"] = true
		case "Histogram":
			metrics[name+"_bucket"], metrics[name+"_count"], metrics[name+"_sum"] = true, true, true
		default:
			metrics[name] = true
		}
	}
	labels := map[string]bool{"le": true}
	for _, found := range regexp.MustCompile(`attribute\.Key\("([a-z_.]+)"\)`).FindAllStringSubmatch(read(t,
		"otelaskback/attributes.go"), -1) {
		labels[underscores(found[1])] = true
	}
	sources := servers(t)

	for name, least := range map[string]int{"alerts.yaml": 15, "dashboard.json": 12} {
		text := strings.ReplaceAll(read(t, "examples/fleet/monitoring/"+name), `\"`, `"`)
		checked := 0
		for _, found := range regexp.MustCompile(`(?s)(\w+)(?:\{([^{}]*)\})?\[`).FindAllStringSubmatch(text, -1) {
			if checked++; !metrics[found[1]] {
				t.Errorf("%s: there is no metric %s", name, found[1])
			}
			for _, match := range regexp.MustCompile(`(\w+)[=!~]+"(.*?)"`).FindAllStringSubmatch(found[2], -1) {
				if !labels[match[1]] {
					t.Errorf("%s: there is no label %s", name, match[1])
				}
				for value := range strings.SplitSeq(match[2], "|") {
					code, _ := strconv.Atoi(value) // of JSON-RPC
					if value != "true" && code != jsonrpc.CodeInternalError && !strings.Contains(sources, `"`+value+`"`) {
						t.Errorf("%s: nothing sets %s to %s", name, match[1], value)
					}
				}
			}
		}
		for _, found := range regexp.MustCompile(`by \((.*?)\)`).FindAllStringSubmatch(text, -1) {
			for label := range strings.SplitSeq(found[1], ", ") {
				if !labels[label] {
					t.Errorf("%s: there is no label %s", name, label)
				}
			}
		}
		if checked < least {
			t.Errorf("%s uses %d metrics of ours", name, checked)
		}
	}
}

func underscores(name string) string { return strings.ReplaceAll(name, ".", "_") }

func read(t *testing.T, name string) string {
	t.Helper()
	text := expect.Must(os.ReadFile(name))(t)
	return string(text)
}

// servers returns the code that decides the values of labels.
func servers(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{"otelaskback", "seal", "internal/call", "internal/home", "internal/wire"} {
		expect.Check(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				all.WriteString(read(t, filepath.Join(dir, path)))
			}
			return err
		}))
	}
	return all.String()
}
