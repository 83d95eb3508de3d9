package main

import (
	"fmt"
	"slices"
	"time"
)

var noTask = notJudged("the client takes no tasks", "let the client declare "+tasksExtension+" and wait for the task")

// polled are the requests to the first task of the scene, or nothing if there was no task.
func (s *scene) polled() []*round {
	for _, t := range s.tasks {
		if len(t.gets) > 0 {
			return t.gets
		}
	}
	return nil
}

// updates are the tasks/update requests.
func (s *scene) updates() []*request {
	return slices.DeleteFunc(slices.Clone(s.requests), func(r *request) bool {
		return r.Method != "tasks/update" || r.second
	})
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
			return seen("it polled after %v, and the interval was %v", gap.Round(time.Millisecond), interval)
		}
	}
	return passed(fmt.Sprintf("the client kept the interval between %d polls", len(gets)))
}

// watchTaskOnce judges a task that shows a question for a while after it was answered.
func watchTaskOnce(s *scene) outcome {
	updates, times := s.updates(), 0
	if len(updates) == 0 {
		return noTask
	}
	for _, u := range updates {
		if _, ok := u.Params.InputResponses["confirm"]; ok {
			times++
		}
	}
	again := func(p *round) bool { return p.request.at > updates[0].at && p.reply.Task == "input_required" }
	switch {
	case times > 1:
		return seen("it answered one key of a task %d times", times)
	case !slices.ContainsFunc(s.polled(), again):
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
		return seen("it did not answer the task's question, whose key the round before had, too")
	}
	return passed("the client answered the task's question")
}

func watchTaskName(s *scene) outcome {
	judged := 0
	for _, r := range s.requests {
		if r.Params.TaskID == "" || r.second {
			continue
		}
		if judged++; !r.names(r.Params.TaskID) {
			return seen("the header Mcp-Name of %s is not the taskId", r.describe())
		}
	}
	if judged == 0 {
		return noTask
	}
	return passed(fmt.Sprintf("the header Mcp-Name of %d requests is the taskId", judged))
}

// watchTaskEnd judges whether the client stops at a terminal status.
func watchTaskEnd(s *scene) outcome {
	gets := s.polled()
	ended := slices.IndexFunc(gets, func(p *round) bool { return p.reply.Task == "completed" })
	switch {
	case ended < 0:
		return noTask
	case ended < len(gets)-1:
		return seen("it polled %d times after the task had ended", len(gets)-1-ended)
	}
	return passed("the client stopped when the task had ended")
}
