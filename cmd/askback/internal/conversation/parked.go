package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/durable"
)

// park leaves a call that waits for answers, and returns the error that tells how to go on. The call is kept in the
// file of --park. One that the person has put off is kept where it was resumed from, or else in a file of its own; if
// it is a task that has all answers, the server keeps it.
func (c *Conversation) park(parked *client.PendingError) error {
	p, why, code := parked.Pending, error(parked), cli.ExitWaits
	if c.asker.leaving.wasInterrupted() {
		why, code = fmt.Errorf("interrupted: %w", parked), cli.ExitInterrupted
	}
	if c.answer.park == "" && p.TaskID != "" && len(p.Answers) == 0 {
		return cli.WithCode(code, fmt.Errorf("%w\nGo on with '%s'", why, c.asker.watch.command()))
	}
	file, err := c.keep(p)
	if err != nil {
		return fmt.Errorf("parking the call: %w", err)
	}
	until := ""
	if p.Expires != nil {
		until = fmt.Sprintf(", not later than %s", cli.Moment(*p.Expires, time.Now(), ""))
	}
	again := "askback resume " + cli.ShellQuote(file)
	if p.Endpoint == "" || len(c.connect.headers) > 0 { // resume sends headers only to its TARGET
		again += " " + cli.ShellQuote(c.asker.target.Shown())
	}
	if len(c.connect.headers) > 0 {
		again += " --header …"
	}
	return cli.WithCode(code, fmt.Errorf("%w\nGo on with '%s'%s", why, again, until))
}

// keep writes a call to the place where it is parked.
func (c *Conversation) keep(p *client.Pending) (file string, err error) {
	encoded, err := cli.EncodeJSON(p, "  ")
	if err != nil {
		return "", err
	}
	text, resumed := string(encoded), c.answer.resumed
	switch file = c.answer.park; {
	case file == "-":
		return file, cli.Output(c.Cmd.OutOrStdout(), text)
	case file != "":
		return file, writeParked(file, text, file == resumed)
	case resumed != "" && resumed != "-" && writeParked(resumed, text, true) == nil:
		return resumed, nil
	}
	return parkAnew(c.asker.called, text)
}

// answerLeft gives a task that the person leaves the answers that there are, so that only the server keeps them. If the
// server does not take them, they are parked.
func (c *Conversation) answerLeft(ctx context.Context, s *client.Session, err error) {
	parked, ok := errors.AsType[*client.PendingError](err)
	if !ok || !errors.Is(err, client.ErrPark) || c.answer.park != "" {
		return
	}
	p, given := parked.Pending, make(map[string]any)
	for key, answer := range p.Answers {
		given[key] = answer
	}
	if p.TaskID == "" || len(given) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := s.AnswerTask(ctx, p.TaskID, given); err != nil {
		c.asker.console.line("askback: the task did not accept the answers: %v", cli.FaultText(err))
		return
	}
	p.Questions = slices.DeleteFunc(p.Questions, func(q *client.Question) bool { return given[q.Key] != nil })
	p.Answers = nil
}

// parkedDir returns the directory of the calls that were put off.
func parkedDir() (string, error) {
	dir, err := cli.StateDir()
	return filepath.Join(dir, "parked"), err
}

// parkAnew writes a parked call to a new file of the user's, which has a part of the called tool's name. Meanwhile it
// removes those that no server takes back any more.
func parkAnew(called, text string) (file string, err error) {
	dir, err := parkedDir()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", err
	}
	removeExpired(dir, time.Now())
	name := noFileName.ReplaceAllString(called, "")
	f, err := os.CreateTemp(dir, name[:min(len(name), 40)]+"-*.json") // mode 0600
	if err != nil {
		return "", err
	}
	if err := durable.WriteAndSync(f, text); err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// noFileName matches what a file's name does without.
var noFileName = regexp.MustCompile(`^[^A-Za-z0-9]+|[^A-Za-z0-9_-]+`)

func removeExpired(dir string, now time.Time) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, file := range files {
		if p, err := readParked(file, nil); err == nil && p.Expires != nil && now.After(*p.Expires) {
			os.Remove(file)
		}
	}
}

// removeParked removes the file of a call that was put off and has its result. Any other file stays.
func removeParked(file string) {
	dir, err := parkedDir()
	if abs, err2 := filepath.Abs(file); err == nil && err2 == nil && filepath.Dir(abs) == dir {
		os.Remove(abs)
	}
}

// writeParked writes a parked call atomically. It replaces an existing file only if replace is set.
func writeParked(file, text string, replace bool) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".askback-parked-*") // mode 0600
	if err != nil {
		return err
	}
	if err := durable.WriteAndSync(f, text); err != nil {
		os.Remove(f.Name())
		return err
	}
	if replace {
		return os.Rename(f.Name(), file)
	}
	// If another call was parked there meanwhile, this one stays in the new file.
	if linkErr := os.Link(f.Name(), file); linkErr != nil {
		return fmt.Errorf("%w; the call is in %s", linkErr, f.Name())
	}
	return os.Remove(f.Name())
}

// readParked reads a parked call from a file, or from stdin for "-".
func readParked(file string, stdin io.Reader) (*client.Pending, error) {
	text, err := cli.ReadInput(file, stdin)
	if err != nil {
		return nil, cli.Usagef("the parked call: %w", err)
	}
	pending := new(client.Pending)
	if err := json.Unmarshal(text, pending); err != nil {
		return nil, cli.Usagef("%s does not hold a parked call as --park writes it: %w", file, err)
	}
	return pending, nil
}
