package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// TasksExtension identifies the tasks extension (SEP-2663).
const TasksExtension = "io.modelcontextprotocol/tasks"

// MetaRelatedTask ties a message to a task (2025-11-25, "Related Task Metadata").
const MetaRelatedTask = "io.modelcontextprotocol/related-task"

// The requests about tasks. The extension has the first three, the proposals' dialect all except UpdateTask.
const (
	GetTask       = "tasks/get"
	CancelTask    = "tasks/cancel"
	UpdateTask    = "tasks/update"
	TaskResult    = "tasks/result"
	InputResponse = "tasks/input_response"
	ListTasks     = "tasks/list"
)

// TaskMethods are all requests about tasks.
var TaskMethods = []string{GetTask, CancelTask, UpdateTask, TaskResult, InputResponse, ListTasks}

// IsTask reports whether a method is a request about tasks.
func IsTask(method string) bool { return strings.HasPrefix(method, "tasks/") }

// RelatedTask returns the ID of the task that a result, or a request's params, names in its _meta, or "".
func RelatedTask(object []byte) string {
	id, _ := strictjson.String(strictjson.Get(strictjson.Get(strictjson.Get(object, "_meta"), MetaRelatedTask), "taskId"))
	return id
}

// Task is the status of a task, for both dialects.
type Task struct {
	ID               string
	Status           string
	Message          string // empty means none
	Created, Updated time.Time
	TTL, Poll        time.Duration
}

// Append appends the members of a task, without braces, under the names of the extension or of the proposals'
// dialect.
func (t *Task) Append(dst []byte, extension bool) []byte {
	ttl, poll := "ttl", "pollInterval"
	if extension {
		ttl, poll = "ttlMs", "pollIntervalMs"
	}
	const timestamp = "2006-01-02T15:04:05.000Z"
	dst = AppendString(append(dst, `"taskId":`...), t.ID)
	dst = AppendString(append(dst, `,"status":`...), t.Status)
	if t.Message != "" {
		dst = AppendString(append(dst, `,"statusMessage":`...), t.Message)
	}
	dst = t.Created.UTC().AppendFormat(append(dst, `,"createdAt":"`...), timestamp)
	dst = t.Updated.UTC().AppendFormat(append(dst, `","lastUpdatedAt":"`...), timestamp)
	dst = strconv.AppendInt(append(append(append(dst, `","`...), ttl...), `":`...), t.TTL.Milliseconds(), 10)
	dst = append(append(append(dst, `,"`...), poll...), `":`...)
	return strconv.AppendInt(dst, t.Poll.Milliseconds(), 10)
}

// CreateTaskResult appends the result of a call that became a task. A nil meta adds no _meta.
func CreateTaskResult(dst []byte, t *Task, extension bool, meta []byte) []byte {
	if extension {
		dst = t.Append(append(dst, `{"resultType":"task",`...), extension)
	} else {
		dst = append(t.Append(append(dst, `{"task":{`...), extension), '}')
	}
	return append(appendMeta(dst, meta), '}')
}

func appendMeta(dst, meta []byte) []byte {
	if meta != nil {
		dst = append(dst, `,"_meta":`...)
		dst = append(dst, meta...)
	}
	return dst
}

// AppendInputRequests appends an object of input requests.
func AppendInputRequests(dst []byte, requests []InputRequest) []byte {
	dst = append(dst, '{')
	for i, r := range requests {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, r.Key), `:{"method":`...)
		dst = append(AppendString(dst, r.Method), `,"params":`...)
		dst = append(append(dst, r.Params...), '}')
	}
	return append(dst, '}')
}

// ParseTTL reads the time to live in the member task of a call's parameters. Without one it returns 0.
func ParseTTL(task []byte) (time.Duration, *jsonrpc.Error) {
	if strictjson.TypeOf(task) != strictjson.TypeObject {
		return 0, Errorf(jsonrpc.CodeInvalidParams, `invalid params: "task" must be an object`)
	}
	ttl := strictjson.Get(task, "ttl")
	if ttl == nil || strictjson.TypeOf(ttl) == strictjson.TypeNull {
		return 0, nil
	}
	ms, err := strconv.ParseFloat(string(ttl), 64)
	if strictjson.TypeOf(ttl) != strictjson.TypeNumber || err != nil || ms < 1 {
		return 0, Errorf(jsonrpc.CodeInvalidParams, `invalid params: task "ttl" must be a positive number of milliseconds`)
	}
	const most = 100 * 365 * 24 * time.Hour // fits a Duration, and exceeds what any server allows
	return time.Duration(min(ms, float64(most.Milliseconds()))) * time.Millisecond, nil
}
