package process

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Usage is what a server that is written in Go says of itself.
type Usage struct {
	Heap       int64 // bytes in use, after a collection
	Stacks     int64 // bytes of goroutines' stacks
	Goroutines int
}

// WithUsage adds to a handler what [Server.Usage] and a profiler read.
func WithUsage(handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /usage", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close") // it must not count among those that are held
		runtime.GC()
		runtime.GC() // frees what the first one found in pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_ = json.NewEncoder(w).Encode(Usage{int64(m.HeapAlloc), int64(m.StackInuse), runtime.NumGoroutine()})
	})
	return mux
}

// Get returns what the server shows at a path.
func (s *Server) Get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

// Usage asks the server what it uses.
func (s *Server) Usage(ctx context.Context) (u Usage, err error) {
	data, err := s.Get(ctx, "/usage")
	if err == nil {
		err = json.Unmarshal(data, &u)
	}
	if err != nil {
		return u, fmt.Errorf("ask the server what it uses: %w", err)
	}
	return u, nil
}

// Settled returns the usage when goroutines that are ending have ended.
func (s *Server) Settled(ctx context.Context) (Usage, error) {
	last, err := s.Usage(ctx)
	for same, tries := 0, 0; err == nil && same < 3 && tries < 100; tries++ {
		time.Sleep(100 * time.Millisecond)
		was := last.Goroutines
		if last, err = s.Usage(ctx); last.Goroutines == was {
			same++
		} else {
			same = 0
		}
	}
	return last, err
}

// Memory reads the resident size of the process in bytes, now and at its peak.
func (s *Server) Memory() (resident, peak int64, err error) { return Memory(s.PID()) }

// Memory reads the resident size of a process in bytes, now and at its peak, from Linux's /proc. The peak in the usage
// of resources of a process that has ended is no measure: it is at least the size of the process that has started it.
func Memory(pid int) (resident, peak int64, err error) {
	file := fmt.Sprintf("/proc/%d/status", pid)
	status, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, fmt.Errorf("memory is read from Linux's /proc: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		kilobytes, _ := strconv.ParseInt(fields[1], 10, 64) // zero is an error below
		switch fields[0] {
		case "VmRSS:":
			resident = kilobytes << 10
		case "VmHWM:":
			peak = kilobytes << 10
		}
	}
	if resident == 0 || peak == 0 {
		return 0, 0, fmt.Errorf("%s has no VmRSS and VmHWM in kB", file)
	}
	return resident, peak, nil
}

// CPU is the time, user and system, that the threads of the process have used so far.
func (s *Server) CPU() (time.Duration, error) {
	dir := fmt.Sprintf("/proc/%d/task/", s.PID())
	threads, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("CPU time is read from Linux's /proc: %w", err)
	}
	var sum time.Duration
	for _, thread := range threads {
		data, err := os.ReadFile(dir + thread.Name() + "/schedstat")
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

// Descriptors counts the files and connections that the process has open.
func (s *Server) Descriptors() (int, error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID()))
	return len(open), err
}
