package tasks

import (
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
)

// Notice returns the operator's record of a notice. The error is for one that cannot be read.
func Notice(n *task.Notice) (desk.Notice, error) {
	q := n.Question
	told, err := stored.DecodeAnnouncement(q.Notice)
	if err != nil {
		return desk.Notice{}, err
	}
	name := task.Name(q.Task)
	return desk.Notice{
		ID: name + "." + task.Name(q.Key) + "." + string(n.Kind), Kind: n.Kind, Time: n.Written, Attempt: n.Attempts,
		Name: name, Key: q.Key, Target: q.Target, Principal: q.Principal, Message: told.Message, For: q.For,
		Votes: told.Votes, Asked: q.Asked, Deadline: q.Deadline,
	}, nil
}
