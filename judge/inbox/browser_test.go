package inbox

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	browserlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// Tests without a Chromium are left out, unless this variable is "required", as the gate has it.
const variable = "ASKBACK_TEST_CHROMIUM"

// browser starts a Chromium with nothing of another one in it. It ends with the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv(variable) == "required" {
			t.Fatalf("%s=required, and there is no Chromium: install the package chromium", variable)
		}
		t.Skip("there is no Chromium: install the package chromium")
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(path), chromedp.Headless,
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(time.Minute))
	t.Cleanup(stop)
	ctx, stop := chromedp.NewContext(allocator)
	t.Cleanup(stop)
	expect.Check(t, chromedp.Do(ctx))
	return ctx
}

// viewer is a window of somebody who is signed in, with cookies of its own.
type viewer struct {
	*testing.T
	ctx context.Context
	url string

	mu   sync.Mutex
	said []string // by the browser: errors
}

func (v *viewer) listen(event any) {
	if e, ok := event.(*browserlog.EventEntryAdded); ok && e.Entry.Level == browserlog.EntryLevelError {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.said = append(v.said, e.Entry.Text+" "+e.Entry.URL)
	}
}

// complaints returns what the browser has complained of since the last time.
func (v *viewer) complaints() (said []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	said, v.said = v.said, nil
	return said
}

// look is how somebody looks at a page.
type look struct {
	width, height int64
	plain         bool // without JavaScript
	dark          bool
}

var (
	wide   = look{width: 1280, height: 900}
	narrow = look{width: 360, height: 740}
)

// open opens a window for somebody of these groups, such as "release".
func (s *scene) open(browser context.Context, name, groups string, l look) *viewer {
	s.Helper()
	ctx, stop := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	s.Cleanup(stop)
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	s.Cleanup(cancel)
	v := &viewer{T: s.T, ctx: ctx, url: s.url}
	expect.Check(s, chromedp.Listen(ctx, v.listen))
	v.do(chromedp.EmulateViewport(l.width, l.height))
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	order(v, browserlog.Enable, cdp.Empty{})
	order(v, network.Enable, network.EnableParams{})
	order(v, network.SetExtraHTTPHeaders,
		network.SetExtraHTTPHeadersParams{Headers: network.Headers{"X-User": name, "X-Groups": groups}})
	order(v, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: l.plain})
	order(v, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	return v
}

// order gives the browser a command of its protocol.
func order[P, R any](v *viewer, command cdp.Command[P, R], p P) R {
	v.Helper()
	r := expect.Must(chromedp.Call(v.ctx, command, p))(v)
	return r
}

func (v *viewer) do(steps ...chromedp.Action[chromedp.Void]) {
	v.Helper()
	expect.Check(v, chromedp.Do(v.ctx, steps...))
}

// read returns what an action reads from the page.
func read[T any](v *viewer, a chromedp.Action[T]) T {
	v.Helper()
	value := expect.Must(chromedp.Run(v.ctx, a))(v)
	return value
}

func (v *viewer) visit(path string) {
	v.Helper()
	v.do(chromedp.Navigate(v.url + path))
}
