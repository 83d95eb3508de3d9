package process

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/prometheus/procfs"
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

// Memory reads the resident size of a process in bytes, now and at its peak. The peak in the usage of resources of a
// process that has ended is no measure: it is at least the size of the process that has started it.
func Memory(pid int) (resident, peak int64, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, 0, err
	}
	status, err := p.NewStatus()
	return int64(status.VmRSS), int64(status.VmHWM), err
}

// CPU is the time, user and system, that the threads of the process have used so far.
func (s *Server) CPU() (sum time.Duration, err error) {
	threads, err := procfs.AllThreads(s.PID())
	for _, t := range threads {
		if used, err := t.Schedstat(); err == nil { // otherwise the thread has ended
			sum += time.Duration(used.RunningNanoseconds)
		}
	}
	return sum, err
}

// Descriptors counts the files and connections that the process has open.
func (s *Server) Descriptors() (int, error) {
	p, err := procfs.NewProc(s.PID())
	if err != nil {
		return 0, err
	}
	return p.FileDescriptorsLen()
}
