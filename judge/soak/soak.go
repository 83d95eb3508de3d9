package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/askback-mcp/askback/judge/process"
)

// sample is what the server uses at one moment.
type sample struct {
	at          time.Duration // since the beginning
	rss, heap   int64         // bytes
	goroutines  int
	descriptors int
}

func takeSample(ctx context.Context, s *process.Server, begun time.Time) (sample, error) {
	own, err1 := s.Usage(ctx)
	rss, _, err2 := process.Memory(s.PID())
	descriptors, err3 := s.Descriptors()
	return sample{time.Since(begun), rss, own.Heap, own.Goroutines, descriptors}, errors.Join(err1, err2, err3)
}

// every is the time between two samples.
const every = 10 * time.Second

// soak puts the mixed load on a server, and prints what the server uses. The error says what grew, or went wrong.
func soak(ctx context.Context, s *process.Server, duration time.Duration, out io.Writer) error {
	begun := time.Now()
	loaded, stop := context.WithTimeout(ctx, duration)
	defer stop()
	load := mixedLoad()
	wait := apply(loaded, s, load)
	defer wait()
	// Lines appear as they are measured, so that no column can wait for a wider one.
	fmt.Fprintln(out, "   after   RSS MB  heap MB  goroutines  descriptors")
	var samples []sample
	for process.Sleep(loaded, every) == nil {
		now, err := takeSample(ctx, s, begun)
		if err != nil {
			return err
		}
		samples = append(samples, now)
		fmt.Fprintf(out, "%8v %8.1f %8.1f %11d %12d\n",
			now.at.Round(time.Second), megabytes(now.rss), megabytes(now.heap), now.goroutines, now.descriptors)
	}
	wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	err := grew(samples, warmUp(duration))
	for _, k := range load { // what uses nothing because it fails is no measurement
		if first := k.failed.Load(); first != nil {
			err = errors.Join(err, fmt.Errorf("%s: one failed: %w", k.name, *first))
		} else if k.done.Load() == 0 {
			err = errors.Join(err, fmt.Errorf("%s: none was done", k.name))
		}
	}
	return err
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

// warmUp is the beginning of a run, in which a server may grow: until what was abandoned first has expired, and the
// runtime has the memory that the load needs.
func warmUp(duration time.Duration) time.Duration { return max(duration/5, min(3*ttl, duration/2)) }

// grew compares the first third of a run after its warm-up with the last third, by their medians: a single sample may
// be taken in the middle of a burst.
func grew(samples []sample, warm time.Duration) error {
	samples = slices.DeleteFunc(slices.Clone(samples), func(s sample) bool { return s.at < warm })
	third := len(samples) / 3
	if third == 0 {
		return nil
	}
	var err error
	for _, m := range []struct {
		name  string
		value func(sample) int64
		slack int64 // of what is too small to tell growth from noise
	}{
		{"resident memory", func(s sample) int64 { return s.rss }, 16 << 20},
		{"the heap", func(s sample) int64 { return s.heap }, 4 << 20},
		{"the number of goroutines", func(s sample) int64 { return int64(s.goroutines) }, 20},
		{"the number of descriptors", func(s sample) int64 { return int64(s.descriptors) }, 20},
	} {
		before, after := median(samples[:third], m.value), median(samples[len(samples)-third:], m.value)
		if after > before+before/10+m.slack {
			err = errors.Join(err, fmt.Errorf("%s grew from %d to %d after the warm-up", m.name, before, after))
		}
	}
	return err
}

func median(samples []sample, value func(sample) int64) int64 {
	sorted := slices.SortedFunc(slices.Values(samples), func(a, b sample) int { return cmp.Compare(value(a), value(b)) })
	return value(sorted[len(sorted)/2])
}
