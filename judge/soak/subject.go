package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/child"
)

// subject is the server under load, in a process of its own.
type subject struct {
	url     string
	pid     int
	process *child.Process // nil if it is not a child of this process
}

func startSubject() (*subject, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-serve")
	cmd.Stderr = os.Stderr
	p, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	url, err := p.Wait(time.Minute)
	if err != nil {
		return nil, fmt.Errorf("the server: %w", err)
	}
	return &subject{url, p.PID(), p}, nil
}

func (s *subject) stop() {
	if s.process != nil {
		s.process.Kill()
	}
}

// sample is what the subject uses at one moment.
type sample struct {
	at          time.Duration // since the beginning
	rss, peak   int64         // bytes; zero where there is no /proc
	heap        int64         // bytes
	goroutines  int
	descriptors int
}

func (s *subject) sample(ctx context.Context, begun time.Time) (sample, error) {
	now := sample{at: time.Since(begun)}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/usage", nil)
	if err != nil {
		return now, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return now, fmt.Errorf("asking the server what it uses: %w", err)
	}
	defer res.Body.Close()
	var own process
	if err := json.NewDecoder(res.Body).Decode(&own); err != nil {
		return now, fmt.Errorf("asking the server what it uses: %w", err)
	}
	now.heap, now.goroutines = own.Heap, own.Goroutines
	now.rss, now.peak, err = s.memory()
	if err != nil {
		return now, err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid))
	now.descriptors = len(open)
	return now, err
}

// memory reads the resident size of the process, now and at its peak.
func (s *subject) memory() (rss, peak int64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		return 0, 0, fmt.Errorf("memory is read from Linux's /proc: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		kilobytes, _ := strconv.ParseInt(fields[1], 10, 64) // zero for lines without a number
		switch fields[0] {
		case "VmRSS:":
			rss = kilobytes << 10
		case "VmHWM:":
			peak = kilobytes << 10
		}
	}
	return rss, peak, nil
}
