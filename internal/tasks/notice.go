package tasks

import (
	"fmt"

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
		// When it was written tells a decision that was taken anew from one that a failover of the store has lost.
		// A full stop would end the ID in what a webhook signs.
		ID:   fmt.Sprintf("%s-%s-%s-%d", name, task.Name(q.Key), n.Kind, n.Written.UnixMicro()),
		Kind: n.Kind, Time: n.Written, Attempt: n.Attempts,
		Name: name, Key: q.Key, Target: q.Target, Principal: q.Principal, Message: told.Message, For: q.For,
		Votes: told.Votes, Asked: q.Asked, Deadline: q.Deadline,
	}, nil
}
