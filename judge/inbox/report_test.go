package inbox

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/judge/process"
)

// The page of 'askback check --html', of a server with findings, keeps nobody from using it either. It loads nothing.
func TestTheReportOfACheckIsAccessible(t *testing.T) {
	program := axe(t)
	b := browser(t)
	command, err := process.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(planted.New(planted.Options{Fault: "plain-base64"}))
	defer server.Close()
	page := filepath.Join(t.TempDir(), "report.html")
	out, err := exec.CommandContext(t.Context(), command, "check", server.URL+"/", "--allow", "*", "--html", page,
		"--header", "Authorization: Bearer "+planted.Alice).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 6 {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, l := range []look{wide, narrow, {width: 1280, height: 900, dark: true}, {width: 360, height: 740, dark: true}} {
		v := (&scene{T: t, url: "file://" + page}).open(b, "", "", l)
		v.visit("")
		if dir := os.Getenv("ASKBACK_PICTURES"); dir != "" {
			v.picture(filepath.Join(dir, fmt.Sprintf("report-%d-%v.png", l.width, l.dark)))
		}
		v.checkPage(fmt.Sprintf("the report at %d, dark %v", l.width, l.dark), program, l)
		for _, said := range v.complaints() {
			t.Errorf("the browser says %s", said)
		}
	}
}
