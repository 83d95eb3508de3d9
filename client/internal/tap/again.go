package tap

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// The bounds of sending a request again that changes nothing, while its server is not there yet.
const (
	mostTries  = 5
	mostDials  = 3                      // of a server that refuses connections
	firstPause = 200 * time.Millisecond // doubles
	mostPause  = 10 * time.Second       // also of a Retry-After
	againTime  = 20 * time.Second       // in all
)

// MethodDiscover asks a server for its versions and capabilities.
const MethodDiscover = "server/discover"

// changesNothing reports whether a request of this method may be sent again even if it has run.
func changesNothing(method string) bool {
	switch method {
	case MethodDiscover, methodInitialize, "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return true
	}
	return false
}

// patient sends a request, and sends it again while its server is not there and the bounds allow it. Once the probe of
// a server has used them up, what follows it is sent once. The probe, and an answer to a question, which has no method,
// are also sent again after their connection broke: a lost probe says nothing of the server, and the server waits for
// the answer, and takes it once.
func patient(base http.RoundTripper, hello *Hello, req *http.Request, method string) (*http.Response, error) {
	began, pause, answers, failures := time.Now(), firstPause, method == "", mostDials
	if answers {
		failures = mostTries
	}
	for try := 1; ; try++ {
		res, err := base.RoundTrip(req)
		wait, away := notThere(res, err)
		if !away && (err == nil || !answers && method != MethodDiscover) || hello.Spent() || req.GetBody == nil {
			return res, err
		}
		if wait = min(max(wait, pause), mostPause); try == mostTries || err != nil && try >= failures ||
			time.Since(began)+wait > againTime {
			if method == MethodDiscover {
				hello.markSpent(err)
			}
			return res, err
		}
		if res != nil {
			_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection is used again
			res.Body.Close()
		}
		if err := sleep(req.Context(), wait); err != nil {
			return nil, err
		}
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body = body
		pause *= 2
	}
}

// notThere reports whether a server, or the gateway before it, cannot answer now, and for how long.
func notThere(res *http.Response, err error) (wait time.Duration, away bool) {
	if err != nil {
		dial, ok := errors.AsType[*net.OpError](err)
		_, unknown := errors.AsType[*net.DNSError](err)
		return 0, ok && dial.Op == "dial" && !unknown
	}
	if res.StatusCode != http.StatusTooManyRequests && res.StatusCode < 500 {
		return 0, false
	}
	after := res.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil && seconds > 0 {
		return time.Duration(min(seconds, int(mostPause/time.Second))) * time.Second, true
	}
	if date, err := http.ParseTime(after); err == nil {
		return max(0, time.Until(date)), true
	}
	return 0, true
}

// sleep waits for a time, unless the context ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
