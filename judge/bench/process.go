package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/child"
)

// server is a subject in a process of its own.
type server struct {
	*subject
	*child.Process
	url string
}

// start starts a subject, with further variables of its environment. GOGC and GOMAXPROCS are the same for all that are
// written in Go.
func start(s *subject, procs int, env ...string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	if s.command != nil {
		cmd = exec.Command(s.command[0], s.command[1:]...)
	}
	cmd.Env = append(os.Environ(), subjectVariable+"="+s.name, "GOGC=100", "GOMEMLIMIT=off", fmt.Sprint("GOMAXPROCS=", procs), "NODE_ENV=production")
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	p, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	url, err := p.Wait(time.Minute)
	if err != nil {
		return nil, fmt.Errorf("starting the server %q: %w", s.title, err)
	}
	return &server{s, p, url}, nil
}

// cpu is the time, user and system, that the threads of the process have used so far.
func (s *server) cpu() (time.Duration, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.PID()))
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of %q from Linux's /proc: %w", s.title, err)
	}
	var sum time.Duration
	for _, task := range tasks {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", s.PID(), task.Name()))
		if err != nil {
			continue // the thread has ended
		}
		nanoseconds, err := strconv.ParseInt(strings.Fields(string(data))[0], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(nanoseconds)
	}
	return sum, nil
}

// resident is the process's memory in bytes.
func (s *server) resident() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of %q from Linux's /proc: %w", s.title, err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[1] != "kB" {
		return 0, fmt.Errorf("reading the memory of %q: /proc/%d/status has no VmRSS in kB", s.title, s.PID())
	}
	kilobytes, err := strconv.ParseFloat(fields[0], 64)
	return 1024 * kilobytes, err
}

// statistics are what a server that is written in Go says of itself.
type statistics struct {
	Heap       float64 // bytes in use, after a collection
	Stacks     float64 // bytes of goroutines' stacks
	Allocated  float64 // objects since the start
	Goroutines float64
}

// get returns what the server shows at a path.
func (s *server) get(path string) ([]byte, error) {
	res, err := http.Get(strings.TrimSuffix(s.url, "/mcp") + path)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

func (s *server) statistics() (got statistics, err error) {
	data, err := s.get("/statistics")
	if err != nil {
		return got, err
	}
	return got, json.Unmarshal(data, &got)
}

func serveStatistics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "close") // it must not count among those that are held
	runtime.GC()
	runtime.GC() // frees what the first one found in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	_ = json.NewEncoder(w).Encode(statistics{float64(m.HeapAlloc), float64(m.StackInuse), float64(m.Mallocs), float64(runtime.NumGoroutine())})
}
