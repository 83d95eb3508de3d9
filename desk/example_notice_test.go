package desk_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// A notice as it is sent to other programs.
func ExampleNotice() {
	asked := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	sent, _ := json.MarshalIndent(desk.Notice{
		ID: "LFE5-BTOG-asked-1795424400000000", Kind: task.NoticeAsked, Time: asked, Attempt: 1,
		Name: "LFE5", Key: "approve", Target: "deploy", Principal: "carol", Message: "Deploy 4.2?",
		For: []string{"group:release"}, Votes: 2, Asked: asked, Deadline: asked.Add(4 * time.Hour),
	}, "", "  ")
	fmt.Println(string(sent))
	// Output:
	// {
	//   "id": "LFE5-BTOG-asked-1795424400000000",
	//   "kind": "asked",
	//   "time": "2026-11-23T09:00:00Z",
	//   "name": "LFE5",
	//   "key": "approve",
	//   "target": "deploy",
	//   "principal": "carol",
	//   "message": "Deploy 4.2?",
	//   "for": [
	//     "group:release"
	//   ],
	//   "votes": 2,
	//   "asked": "2026-11-23T09:00:00Z",
	//   "deadline": "2026-11-23T13:00:00Z"
	// }
}
