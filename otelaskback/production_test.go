package otelaskback_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The expressions of docs/production.md use metrics, labels and values that exist, under the names that Prometheus makes of
// OpenTelemetry's. Those of HTTP are not ours.
func TestProductionGuideNamesMetrics(t *testing.T) {
	page := read(t, "../docs/production.md")
	metrics := make(map[string]bool)
	for _, found := range regexp.MustCompile(`m\.(?:Float|Int)64(\w+)\("([a-z_.]+)", metric\.WithUnit\("(.+?)"\)`).FindAllStringSubmatch(read(t, "metrics.go"), -1) {
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
	for _, found := range regexp.MustCompile(`attribute\.Key\("([a-z_.]+)"\)`).FindAllStringSubmatch(read(t, "attributes.go"), -1) {
		labels[underscores(found[1])] = true
	}
	sources := servers(t)

	checked := 0
	for _, block := range regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			for _, found := range regexp.MustCompile(`(\w+)(?:\{(.*?)\})?\[`).FindAllStringSubmatch(line, -1) {
				if strings.HasPrefix(found[1], "http_") {
					continue
				}
				if checked++; !metrics[found[1]] {
					t.Errorf("there is no metric %s", found[1])
				}
				for _, match := range regexp.MustCompile(`(\w+)[=!~]+"(.*?)"`).FindAllStringSubmatch(found[2], -1) {
					if !labels[match[1]] {
						t.Errorf("there is no label %s", match[1])
					}
					for value := range strings.SplitSeq(match[2], "|") {
						code, _ := strconv.Atoi(value) // of JSON-RPC
						if value != "" && value != "true" && code != jsonrpc.CodeInternalError && !strings.Contains(sources, `"`+value+`"`) {
							t.Errorf("nothing sets %s to %s", match[1], value)
						}
					}
				}
			}
			for _, found := range regexp.MustCompile(`by \((.*?)\)`).FindAllStringSubmatch(line, -1) {
				for label := range strings.SplitSeq(found[1], ", ") {
					if !labels[label] {
						t.Errorf("there is no label %s", label)
					}
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("the page uses %d metrics of ours", checked)
	}
}

func underscores(name string) string { return strings.ReplaceAll(name, ".", "_") }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// servers returns the code that decides the values of labels.
func servers(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{".", "../seal", "../internal/call", "../internal/home", "../internal/wire"} {
		err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				all.WriteString(read(t, filepath.Join(dir, path)))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
