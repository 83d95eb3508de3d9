package tasks

import (
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
)

// Notice returns the operator's record of a notice. The error is for a question that this release cannot read.
func Notice(n *task.Notice) (desk.Notice, error) {
	q := n.Question
	about, err := stored.DecodeAsking(q.Content)
	if err != nil {
		return desk.Notice{}, err
	}
	asked := input.Question{Key: about.Key, Method: about.Method, Params: about.Params}
	_ = asked.Parse() // a message that cannot be read is empty
	name := task.Name(q.Task)
	return desk.Notice{
		ID: name + "." + task.Name(q.Key) + "." + string(n.Kind), Kind: n.Kind, Time: n.Written, Attempt: n.Attempts,
		Name: name, Key: q.Key, Target: q.Target, Principal: q.Principal, Message: asked.Message, For: q.For,
		Votes: about.Votes, Asked: q.Asked, Deadline: q.Deadline,
	}, nil
}
