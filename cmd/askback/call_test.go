package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// `id=$(askback call … --detach); askback task result URL $id` must not give the server a word in the command line.
func TestOnlyIDsForScriptsArePrinted(t *testing.T) {
	for id, printed := range map[string]bool{
		"4YNRJCHJ-TWL.E_X/=": true, "--sampler=sh": false, "x --sampler=sh": false, "x\t--sampler=sh": false,
		"x\n--sampler=sh": false, "x\r--park": false, "x\x1b[2J": false, "x\u202ey": false, "x\u00a0y": false,
	} {
		encoded, _ := json.Marshal(id)
		url := scripted(t, func(string) string {
			return `"resultType":"task","taskId":` + string(encoded) + `,"status":"working"`
		})
		code, stdout, stderr := command(t, "call", url, "t", "--detach")
		if printed && (code != 0 || stdout != id+"\n") || !printed && (code != exitFailure || stdout != "" || !strings.Contains(stderr, "--output json prints it")) {
			t.Errorf("%q: exit code %d, %q, %s", id, code, stdout, stderr)
		}
		code, stdout, _ = command(t, "call", url, "t", "--detach", "--output", "json")
		var task struct{ TaskID string }
		if err := json.Unmarshal([]byte(stdout), &task); code != 0 || err != nil || task.TaskID != id {
			t.Errorf("%q as JSON: exit code %d, %s", id, code, stdout)
		}
	}
}
