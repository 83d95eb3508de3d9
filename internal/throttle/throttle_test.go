package throttle

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneLineOfAKindInFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := New(slog.New(slog.NewTextHandler(&out,
			&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}})))
		for n := range 1200 { // for a minute
			log.With("task", n).Error("writing failed")
			if n%400 == 0 {
				log.Warn("writing failed")
				log.Warn("writing failed")
				log.Info("all is well")
				log.Info("all is well")
			}
			time.Sleep(50 * time.Millisecond)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		kinds := map[string]int{}
		for _, line := range lines {
			kinds[line[:strings.Index(line, " ")]]++
		}
		if kinds["level=ERROR"] != 12 || kinds["level=WARN"] != 3 || kinds["level=INFO"] != 6 {
			t.Errorf("logged %v:\n%s", kinds, &out)
		}
		if lines[0] != `level=ERROR msg="writing failed" task=0` {
			t.Errorf("logged\n%s", &out)
		}
		for n := 100; n < 1200; n += 100 { // what came since the line before is counted, and no more
			want := fmt.Sprintf("level=ERROR msg=\"writing failed\" task=%d suppressed=99\n", n)
			if !strings.Contains(out.String(), want) {
				t.Errorf("no line %q in\n%s", want, &out)
			}
		}
	})
}
