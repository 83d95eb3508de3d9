package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/verdict"
)

// judgeReading judges a probe that reads what the check's own tasks have shown.
func (j *Judge) judgeReading(ctx context.Context, p corpus.Probe, t *talk.Target, v *findings.Verdict) error {
	var found verdict.Seen
	steps := t.Task.Call.Steps
	switch p.Reads {
	case "task-ids":
		if err := j.makeIDs(ctx, t); err != nil {
			return err
		}
		found, steps = readIDs(j.Tasks.IDs, time.Now()), nil
	case "task-result":
		if t.Task.Newest.Class != talk.Done || t.Task.Newest.Status != "completed" {
			return talk.NoVerdict("the task was not completed: "+t.Task.Newest.Status, "")
		}
		found = readResult(t.Task.Newest)
	case "task-keys":
		found = readKeys(t.Task.Seen)
	case "task-old":
		if steps = nil; j.OldTasks {
			found = verdict.Observation("server/discover still declares the tasks of 2025-11-25")
		}
	default:
		return talk.NoVerdict("this check does not know how to read "+p.Reads, "a newer version of the command")
	}
	if found.Proof == "" {
		return verdict.Pass(v, "nothing of the kind")
	}
	return verdict.Found(p, v, found.Proof, steps, "%s", found.What)
}

// enoughIDs is the number of IDs in a row from which the next one is told.
const enoughIDs = 4

// makeIDs makes tasks until there are enough IDs, and cancels them.
func (j *Judge) makeIDs(ctx context.Context, t *talk.Target) error {
	for range enoughIDs {
		if len(j.Tasks.IDs) >= enoughIDs {
			return nil
		}
		tk, err := j.CreateTask(ctx, t, corpus.Step{})
		if err != nil {
			return err
		}
		j.Leave(ctx, tk)
	}
	if len(j.Tasks.IDs) < enoughIDs {
		return talk.NoVerdict("the call does not become a task each time", "")
	}
	return nil
}

// maxVarying is how many characters at least differ between two IDs that nobody can guess.
const maxVarying = 8

// readIDs looks whether the newest ID could be told from those before it, or differs from each in a few places only.
func readIDs(ids []string, now time.Time) verdict.Seen {
	if len(ids) < enoughIDs {
		return verdict.Seen{}
	}
	ids = ids[len(ids)-enoughIDs:]
	if follows(ids, now) {
		return verdict.Observation("the ID of the next task could be told from the IDs of those before")
	}
	last, most := ids[len(ids)-1], 0
	for _, id := range ids[:len(ids)-1] {
		most = max(most, distance(id, last))
	}
	if most <= maxVarying {
		return verdict.Suspicion(fmt.Sprintf("the IDs of %d tasks differ in %d characters at most", len(ids), most))
	}
	return verdict.Seen{}
}

var number = regexp.MustCompile(`[0-9]+`)

// follows reports whether the last ID follows from those before: its numbers are as before, go on in the same steps, or
// are the time.
func follows(ids []string, now time.Time) bool {
	var rows [][]string
	for _, id := range ids {
		if number.ReplaceAllString(id, "0") != number.ReplaceAllString(ids[0], "0") {
			return false
		}
		rows = append(rows, number.FindAllString(id, -1))
	}
	for i := range rows[0] {
		var values []int64
		for _, row := range rows {
			n, err := strconv.ParseInt(row[i], 10, 64)
			if err != nil {
				return false
			}
			values = append(values, n)
		}
		if !even(values) && !isClock(values, now) {
			return false
		}
	}
	return len(rows[0]) > 0
}

// even reports whether numbers go on in the same steps.
func even(values []int64) bool {
	for i := 2; i < len(values); i++ {
		if values[i]-values[i-1] != values[1]-values[0] {
			return false
		}
	}
	return true
}

// isClock reports whether numbers are times of today, in seconds or milliseconds.
func isClock(values []int64, now time.Time) bool {
	for _, unit := range []time.Duration{time.Second, time.Millisecond} {
		all := true
		for _, n := range values {
			age := now.UnixNano()/int64(unit) - n
			all = all && age > -int64(24*time.Hour/unit) && age < int64(24*time.Hour/unit)
		}
		if all {
			return true
		}
	}
	return false
}

// distance is the number of places in which two texts differ.
func distance(a, b string) (n int) {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			n++
		}
	}
	return n
}

// readResult looks whether the result of a completed task is one of tools/call.
func readResult(p *talk.Reply) verdict.Seen {
	var of struct{ Result json.RawMessage }
	_ = json.Unmarshal(p.Result, &of) // it was read before
	var result struct {
		Content           *[]json.RawMessage
		StructuredContent json.RawMessage
	}
	switch err := json.Unmarshal(of.Result, &result); {
	case of.Result == nil:
		return verdict.Observation("the task is completed without a result")
	case err != nil || result.Content == nil && result.StructuredContent == nil:
		return verdict.Observation("the result of the task is no result of tools/call")
	}
	return verdict.Seen{}
}

// readKeys looks for a key that stands for two questions. A text may count the time, so that numbers do not differ.
func readKeys(rounds []*talk.Reply) verdict.Seen {
	first := map[string]string{}
	for _, p := range rounds {
		for _, q := range p.Questions {
			text := number.ReplaceAllString(q.Method+q.Mode+q.Message+string(q.Schema), "#")
			if before, ok := first[q.Key]; ok && before != text {
				return verdict.Observation(fmt.Sprintf("the key %q stands for two questions", talk.CutText(q.Key)))
			}
			first[q.Key] = text
		}
	}
	return verdict.Seen{}
}
