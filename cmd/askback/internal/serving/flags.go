package serving

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/drain"
)

// Flags say how a server stops, and how it logs.
type Flags struct {
	Delay, Grace        time.Duration
	logLevel, logFormat string
}

// Register adds the flags of a server behind a load balancer.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.DurationVar(&f.Delay, "drain-delay", 5*time.Second, "serve this `TIME` after /readyz is 503")
	f.RegisterWithoutDelay(flags)
}

// RegisterWithoutDelay adds the flags of a server that no load balancer leads to.
func (f *Flags) RegisterWithoutDelay(flags *pflag.FlagSet) {
	flags.DurationVar(&f.Grace, "grace", 30*time.Second, "`TIME` to finish what runs")
	flags.StringVar(&f.logLevel, "log-level", "info", "`LEVEL`: debug, info, warn, error")
	flags.StringVar(&f.logFormat, "log-format", "text", "`FORMAT`: text or json")
}

// Check finds times that make no sense.
func (f *Flags) Check() error {
	switch {
	case f.Delay < 0:
		return cli.Usagef("--drain-delay %v: want a time that is not negative", f.Delay)
	case f.Grace <= 0:
		return cli.Usagef("--grace %v: want a time above zero", f.Grace)
	}
	return nil
}

// Logger returns the log of the flags, on w.
func (f *Flags) Logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, cli.Usagef("--log-level %q: want debug, info, warn, error", f.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, cli.Usagef("--log-format %q: want text or json", f.logFormat)
}

// Draining returns how the server stops.
func (f *Flags) Draining(ready func(context.Context) error, log *slog.Logger) *drain.Options {
	draining := &drain.Options{Delay: f.Delay, Grace: f.Grace, Ready: ready, Logger: log}
	if f.Delay == 0 {
		draining.Delay = -1 // zero would mean the default
	}
	return draining
}
