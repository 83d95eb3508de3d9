package workitem

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRulesAskWhatTheProposalAsks(t *testing.T) {
	bug, task := Item{ID: 4522, Type: "Bug"}, Item{ID: 4317, Type: "Task"}
	const (
		how      = "resolution: Resolving Bug #4522 requires a resolution. How was this bug resolved?"
		original = "duplicate_of: Since this is a duplicate, which work item is the original?"
	)
	for _, tt := range []struct {
		name   string
		item   Item
		change map[string]string
		want   []string
	}{
		{"resolving a bug", bug, map[string]string{"System.State": "Resolved"}, []string{how}},
		{"resolving a bug with a resolution", bug, map[string]string{"System.State": "Resolved",
			"Custom.Resolution": "Fixed"}, nil},
		{"resolving a bug as a duplicate", bug, map[string]string{"System.State": "Resolved",
			"Custom.Resolution": "Duplicate"}, []string{original}},
		{"calling a bug a duplicate", bug, map[string]string{"Custom.Resolution": "Duplicate"}, []string{original}},
		{"calling a task a duplicate", task, map[string]string{"Custom.Resolution": "Duplicate"}, []string{original}},
		{"resolving a task", task, map[string]string{"System.State": "Resolved"}, nil},
		{"closing a bug", bug, map[string]string{"System.State": "Closed"}, nil},
		{"another field", bug, map[string]string{"System.Title": "Resolved"}, nil},
		{
			"resolving a bug that is resolved already: what is stored is no part of the decision",
			Item{ID: 4522, Type: "Bug", Fields: map[string]string{"System.State": "Resolved", "Custom.Resolution": "Fixed"}},
			map[string]string{"System.State": "Resolved"}, []string{how},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, r := range bundledProcess().Rules {
				if r.unmet(tt.item, tt.change) {
					got = append(got, r.Ask.Key+": "+r.message(tt.item))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("questions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnAnswerTriggersTheNextRule(t *testing.T) {
	bug, change := Item{ID: 4522, Type: "Bug"}, map[string]string{"System.State": "Resolved"}
	var asked []string
	for _, r := range bundledProcess().Rules {
		if r.unmet(bug, change) {
			asked = append(asked, r.Require)
			change[r.Require] = "Duplicate"
		}
	}
	if diff := cmp.Diff([]string{"Custom.Resolution", "Duplicate Of"}, asked); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
}

func TestBrokenProcessesAreRefused(t *testing.T) {
	type edit func(*process)
	for _, tt := range []struct {
		name string
		edit edit
		want string
	}{
		{"trigger on an unknown field", func(p *process) { p.Rules[0].When.Field = "System.Mood" },
			"rule 1 can never apply: unknown field"},
		{"trigger on an impossible value", func(p *process) { p.Rules[0].When.Becomes = "Done" },
			"rule 1 can never apply: System.State cannot be"},
		{"unknown requirement", func(p *process) { p.Rules[1].Require = "Custom.Reason" },
			`rule 2 requires "Custom.Reason", which is not a field`},
		{"no message", func(p *process) { p.Rules[1].Ask.Message = "" }, "rule 2 needs a message"},
		{"a key twice", func(p *process) { p.Rules[1].Ask.Key = p.Rules[0].Ask.Key },
			"rule 2 needs a message, and a key of its own"},
		{"rules out of order", func(p *process) { p.Rules[0], p.Rules[1] = p.Rules[1], p.Rules[0] },
			"rule 1 must come after the one that requires Custom.Resolution"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := bundledProcess()
			tt.edit(p)
			data, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parseProcess(data); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s…", err, tt.want)
			}
		})
	}
	if _, err := parseProcess([]byte("{")); err == nil {
		t.Error("half a file is accepted")
	}
}

func TestImpossibleChangesAreRefused(t *testing.T) {
	const known = "System.Title, System.State, System.AssignedTo, System.Tags, " +
		"Microsoft.VSTS.Common.Priority, Microsoft.VSTS.Common.Severity, Custom.Resolution"
	for _, tt := range []struct {
		name   string
		change map[string]string
		want   string
	}{
		{"nothing", nil, "fields is empty; name at least one of " + known},
		{"unknown field", map[string]string{"System.Stat": "Resolved"}, `unknown field "System.Stat"; known fields are ` +
			known},
		{"a link is no field", map[string]string{"Duplicate Of": "4301"}, `unknown field "Duplicate Of"; known fields are ` +
			known},
		{"overlong name", map[string]string{strings.Repeat("é", 500): ""}, `unknown field "` + strings.Repeat("é", 30) +
			`"… (1000 bytes); known fields are ` + known},
		{"impossible value", map[string]string{"System.State": "Done"}, `System.State cannot be "Done"; it is one of New, ` +
			`Active, Resolved, Closed`},
		{"clearing a choice", map[string]string{"System.State": ""}, `System.State cannot be ""; it is one of New, ` +
			`Active, Resolved, Closed`},
		{"clearing the title", map[string]string{"System.Title": " "}, "System.Title cannot be empty"},
		{"overlong value", map[string]string{"System.Tags": strings.Repeat("é", 256)},
			"System.Tags is 256 characters long; it can have 255"},
		{"longest value", map[string]string{"System.Tags": strings.Repeat("é", 255)}, ""},
		{"clearing a text", map[string]string{"System.AssignedTo": ""}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := bundledProcess().check(tt.change); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	bug, original := Item{ID: 4522, Type: "Bug"}, &Item{ID: 4301, Type: "Bug"}
	for _, tt := range []struct {
		change   map[string]string
		original *Item
		want     string
	}{
		{
			map[string]string{"System.State": "Resolved", "Custom.Resolution": "Duplicate"}, original,
			"Bug #4522 resolved as Duplicate of Bug #4301. State set to Resolved and duplicate link created.",
		},
		{
			map[string]string{"System.State": "Resolved", "Custom.Resolution": "Fixed"}, nil,
			"Bug #4522 resolved as Fixed. State set to Resolved.",
		},
		{
			map[string]string{"System.State": "Resolved", "Custom.Resolution": "Won't Fix", "System.AssignedTo": ""}, nil,
			"Bug #4522 resolved as Won't Fix. State set to Resolved and Assigned To cleared.",
		},
		{
			map[string]string{"System.State": "Resolved", "Custom.Resolution": "Duplicate", "System.Tags": "export"}, original,
			"Bug #4522 resolved as Duplicate of Bug #4301. State set to Resolved, Tags set to export and duplicate link " +
				"created.",
		},
		{
			map[string]string{"Custom.Resolution": "Duplicate"}, original,
			"Bug #4522 updated. Resolution set to Duplicate and duplicate link to Bug #4301 created.",
		},
		{
			map[string]string{"Microsoft.VSTS.Common.Priority": "1"}, nil,
			"Bug #4522 updated. Priority set to 1.",
		},
	} {
		if diff := cmp.Diff(tt.want, bundledProcess().summary(bug, tt.change, tt.original)); diff != "" {
			t.Errorf("summary of %v (-want +got):\n%s", tt.change, diff)
		}
	}
}

func TestTheFormOffersTheResolutionsOfTheProcess(t *testing.T) {
	form, _ := reflect.TypeFor[resolution]().FieldByName("Chosen")
	f, _ := bundledProcess().field(resolutionField)
	if diff := cmp.Diff(f.Values, strings.Split(form.Tag.Get("enum"), "|")); diff != "" {
		t.Errorf("options (-process +form):\n%s", diff)
	}
}

func TestTheHandlerKnowsHowToAskForWhatTheRulesRequire(t *testing.T) {
	for _, r := range bundledProcess().Rules {
		if r.Require != resolutionField && r.Require != duplicateOf {
			t.Errorf("no form asks for %s", r.Require)
		}
	}
}
