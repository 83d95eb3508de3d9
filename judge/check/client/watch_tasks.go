package main

import (
	"fmt"
	"slices"
	"time"
)

var noTask = notJudged("the client takes no tasks", "let the client declare "+tasksExtension+" and wait for the task")

// polled are the requests to the first task of the scene, or nothing if there was no task.
func (s *scene) polled() []*poll {
	for _, t := range s.tasks {
		if len(t.gets) > 0 {
			return t.gets
		}
	}
	return nil
}

// updates are the tasks/update requests.
func (s *scene) updates() (all []*request) {
	for _, r := range s.requests {
		if r.method == "tasks/update" && !r.second {
			all = append(all, r)
		}
	}
	return all
}

// watchTaskPoll compares the times between polls with the interval that the server asked for.
func watchTaskPoll(s *scene) outcome {
	const tolerance = 0.8 // clocks and schedulers
	gets := s.polled()
	if len(gets) < 3 {
		return noTask
	}
	for i, p := range gets[1:] {
		between := func(u *request) bool { return u.at > gets[i].request.at && u.at < p.request.at }
		if slices.ContainsFunc(s.updates(), between) {
			continue // a client may look at once what its answers have done
		}
		interval := time.Duration(gets[i].reply.PollMillis) * time.Millisecond
		if gap := p.request.at - gets[i].request.at; gap < time.Duration(tolerance*float64(interval)) {
			return found("observation", fmt.Sprintf("it polled after %v, and the interval was %v",
				gap.Round(time.Millisecond), interval))
		}
	}
	return passed(fmt.Sprintf("the client kept the interval between %d polls", len(gets)))
}

// watchTaskOnce judges a task that shows a question for a while after it was answered.
func watchTaskOnce(s *scene) outcome {
	gets, updates := s.polled(), s.updates()
	if len(updates) == 0 {
		return noTask
	}
	after := 0
	for _, p := range gets {
		if p.request.at > updates[0].at && p.reply.Task == "input_required" {
			after++
		}
	}
	times := 0
	for _, u := range updates {
		if _, ok := u.answers["confirm"]; ok {
			times++
		}
	}
	switch {
	case times > 1:
		return found("observation", fmt.Sprintf("it answered one key of a task %d times", times))
	case after == 0:
		return notJudged("the client did not see the question again", "let the client poll the task to its end")
	}
	return passed("the client answered each key once")
}

// watchTaskScope judges whether a task's question is answered whose key a round before the task had.
func watchTaskScope(s *scene) outcome {
	shown := 0
	for _, p := range s.polled() {
		if p.reply.Task == "input_required" {
			shown++
		}
	}
	switch {
	case shown < 2:
		return noTask
	case len(s.answered()) == 0:
		return notRetried
	case len(s.updates()) == 0:
		return found("observation", "it did not answer the task's question, whose key the round before had, too")
	}
	return passed("the client answered the task's question")
}

func watchTaskName(s *scene) outcome {
	judged := 0
	for _, r := range s.requests {
		if r.taskID == "" || r.second {
			continue
		}
		judged++
		if r.headerName() != r.taskID {
			return found("observation", "the header Mcp-Name of "+r.describe()+" is not the taskId")
		}
	}
	if judged == 0 {
		return noTask
	}
	return passed(fmt.Sprintf("the header Mcp-Name of %d requests is the taskId", judged))
}

// watchTaskEnd judges whether the client stops at a terminal status.
func watchTaskEnd(s *scene) outcome {
	ended := -1
	gets := s.polled()
	for i, p := range gets {
		if p.reply.Task == "completed" && ended < 0 {
			ended = i
		}
	}
	switch {
	case ended < 0:
		return noTask
	case ended < len(gets)-1:
		return found("observation", fmt.Sprintf("it polled %d times after the task had ended", len(gets)-1-ended))
	}
	return passed("the client stopped when the task had ended")
}
