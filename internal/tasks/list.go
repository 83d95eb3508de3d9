package tasks

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// perPage bounds a page of tasks/list.
const perPage = 50

func (x *exchange) list(ctx context.Context) (result, error) {
	if x.principal == "" && !x.ListAnonymous {
		return result{}, wire.Errorf(jsonrpc.CodeMethodNotFound,
			"tasks/list: this server cannot tell callers apart, and does not list tasks")
	}
	after, fault := parseCursor(strictjson.Get(x.Params, "cursor"))
	if fault != nil {
		return result{}, fault
	}
	tasks, err := x.Engine.List(ctx, x.principal, home.DialectProposal, after, perPage+1)
	if err != nil {
		return result{}, x.failed(ctx, "listing tasks", err)
	}
	more := len(tasks) > perPage
	if more {
		tasks = tasks[:perPage]
	}
	members := []byte(`"tasks":[`)
	for i, t := range tasks {
		if i > 0 {
			members = append(members, ',')
		}
		if t.Status == task.Completed { // its outcome decides whether it failed in this dialect
			if t, err = x.Engine.Get(ctx, x.principal, t.ID); errors.Is(err, task.ErrNotFound) {
				t = tasks[i]
			} else if err != nil {
				return result{}, x.failed(ctx, "listing tasks", err)
			}
		}
		row := x.row(t, false)
		members = append(row.Append(append(members, '{'), false), '}')
	}
	members = append(members, ']')
	if more {
		last := tasks[len(tasks)-1]
		cursor := base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(last.Created.UnixMilli(), 10) + "." +
			last.ID))
		members = append(members, `,"nextCursor":"`+cursor+`"`...)
	}
	return result{members: members}, nil
}

// lastCursor bounds the time of a cursor, in milliseconds since 1970: the last one that RFC 3339 can write. Databases
// refuse years that are far beyond.
var lastCursor = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMilli()

func parseCursor(raw []byte) (*task.Task, *jsonrpc.Error) {
	if raw == nil || strictjson.TypeOf(raw) == strictjson.TypeNull {
		return nil, nil
	}
	cursor, _ := strictjson.String(raw) // what is no string is empty, and has no ID
	data, err1 := base64.RawURLEncoding.DecodeString(cursor)
	created, id, hasID := strings.Cut(string(data), ".")
	ms, err2 := strconv.ParseInt(created, 10, 64)
	if len(cursor) > 256 || !hasID || err1 != nil || err2 != nil || ms < 0 || ms > lastCursor || !utf8.ValidString(id) ||
		strings.Contains(id, "\x00") {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: the cursor does not come from this server")
	}
	return &task.Task{ID: id, Created: time.UnixMilli(ms)}, nil
}
