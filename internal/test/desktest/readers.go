package desktest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// Somebody who reads what does not concern them, or makes more of what they may read.
var byReaders = []attack{
	{says: "a reader whom it does not concern", want: unknown, do: func(s *scene) string {
		for _, p := range strangers {
			said := s.reads(p, s.name)
			if !errors.Is(said, task.ErrNotFound) || said.Error() != s.reads(p, task.Name("none")).Error() {
				return fmt.Sprintf("%+v: %v", p, said)
			}
			if found := s.finds(p); found != "" {
				return fmt.Sprintf("%+v finds it in %s", p, found)
			}
		}
		return unknown
	}},
	{says: "readers who cannot be persons", want: "nothing", do: func(s *scene) string {
		for _, name := range []string{"", " carol", "carol ", "carol\x00", strings.Repeat("carol", 100)} {
			p := desk.Person{Name: name, Groups: []string{"release"}}
			if invalid := new(desk.InvalidError); !errors.As(s.reads(p, s.name), &invalid) || s.question().Concerns(p) ||
				s.finds(p) != "" {
				return fmt.Sprintf("%q is somebody", name)
			}
		}
		return "nothing"
	}},
	{says: "a refused answer as a way into the history", want: unknown, do: func(s *scene) string {
		said := s.refused(approves("eve", "oncall"))
		if err := s.reads(desk.Person{Name: "eve", Groups: []string{"oncall"}}, s.name); !errors.Is(err, task.ErrNotFound) {
			return fmt.Sprint("eve reads it: ", err)
		}
		return said
	}},
	{says: "the caller, who reads it, and answers", want: "the call is your own", do: func(s *scene) string {
		carol := desk.Person{Name: "carol", Groups: []string{"release"}}
		if err := s.reads(carol, s.name); err != nil || !strings.Contains(s.finds(carol), "began") {
			return fmt.Sprintf("carol sees it in %q: %v", s.finds(carol), err)
		}
		if err := s.question().May(carol); !errors.Is(err, desk.ErrOwnCall) {
			return fmt.Sprint("carol may: ", err)
		}
		return s.refused(approves("carol", "release"))
	}},
	{says: "somebody who has voted, and has left the group", votes: 1, want: unknown, do: func(s *scene) string {
		if _, err := s.Answer(s.Context(), s.name, "release", approves("bob", "release")); err != nil {
			s.Error(err)
		}
		bob := desk.Person{Name: "bob"}
		if err := s.reads(bob, s.name); err != nil || s.finds(bob) != "answered" {
			return fmt.Sprintf("bob sees it in %q: %v", s.finds(bob), err)
		}
		_, claimed := s.Claim(s.Context(), s.name, "release", bob, time.Hour)
		_, handed := s.HandOver(s.Context(), s.name, "release", bob, "dave", time.Hour)
		_, extended := s.Extend(s.Context(), s.name, "release", bob, time.Now().Add(2*time.Hour), "")
		for _, err := range []error{claimed, handed, extended, s.question().May(bob)} {
			if !errors.Is(err, task.ErrNotFound) {
				return fmt.Sprint("bob may: ", err)
			}
		}
		return s.refused(approves("bob"))
	}},
	{says: "readers of an anonymous caller's question", want: unknown, do: func(s *scene) string {
		id := s.call(s.T, "", "many", "")
		name := s.asked(s.T, id)
		defer s.Cancel(s.Context(), name, desk.Cancellation{By: "test", Reason: "it is over"}) //nolint:errcheck
		q, err := s.Question(s.Context(), name, "q1", nil)
		if err != nil || q.Principal != "" || !q.Concerns(desk.Person{Name: "alice"}) {
			return fmt.Sprintf("%+v %v", q, err)
		}
		for _, p := range append(strangers, desk.Person{}, desk.Person{Name: "anonymous"}, desk.Person{Name: "carol"}) {
			if q.Concerns(p) {
				return fmt.Sprintf("it concerns %+v", p)
			}
			for q := range s.Began(s.Context(), p) {
				if q != nil && q.Name == name {
					return fmt.Sprintf("%+v began it", p)
				}
			}
		}
		_, err = s.Question(s.Context(), name, "q1", &desk.Person{Name: "mallory"})
		return errorText(err)
	}},
	{says: "readers of what changes", votes: 1, want: "nobody else", do: func(s *scene) string {
		ctx, stop := context.WithTimeout(s.Context(), 20*time.Second)
		defer stop()
		next, end := iter.Pull2(s.Changes(ctx, 0))
		defer end()
		time.AfterFunc(2*time.Second, func() {
			if _, err := s.Answer(ctx, s.name, "release", approves("bob", "release")); err != nil {
				s.Error(err)
			}
		})
		for {
			q, err, ok := next()
			if !ok || err != nil && q == nil {
				return fmt.Sprint("the changes end: ", err)
			}
			if q.Name != s.name {
				continue
			}
			for _, p := range strangers {
				if q.Concerns(p) {
					return fmt.Sprintf("%+v sees %+v", p, q)
				}
			}
			if len(q.Count) != 1 || !q.Concerns(desk.Person{Name: "bob"}) || !q.Concerns(desk.Person{Name: "carol"}) ||
				!q.Concerns(desk.Person{Name: "dave", Groups: []string{"release"}}) {
				return fmt.Sprintf("those whom it concerns do not see %+v", q)
			}
			return "nobody else"
		}
	}},
}

// strangers are those whom carol's question does not concern.
var strangers = []desk.Person{
	{Name: "mallory"}, {Name: "eve", Groups: []string{"oncall"}}, {Name: "release"}, {Name: "group:release"},
	{Name: "user:carol"}, {Name: "Carol"}, {Name: "mallory", Groups: []string{"carol", "group:release", "Release"}},
}

// reads returns what keeps a person from reading the question of a task.
func (s *scene) reads(p desk.Person, name string) error {
	_, one := s.Question(s.Context(), name, "release", &p)
	all, err := s.Questions(s.Context(), name, &p)
	if (one == nil) != (err == nil) || err != nil && len(all) > 0 {
		s.Errorf("%+v reads one: %v, and all: %d, %v", p, one, len(all), err)
	}
	return one
}

// finds returns the lists in which a person finds carol's question.
func (s *scene) finds(p desk.Person) string {
	var in []string
	for list, questions := range map[string]iter.Seq2[*desk.Question, error]{
		"waiting": s.Waiting(s.Context(), desk.Waiting{As: &p}), "answered": s.Answered(s.Context(), p),
		"newest": s.Waiting(s.Context(), desk.Waiting{As: &p, Newest: true}), "began": s.Began(s.Context(), p),
		"searched": s.Waiting(s.Context(), desk.Waiting{As: &p, Search: s.version}),
	} {
		for q := range questions {
			if q != nil && q.Name == s.name {
				in = append(in, list)
			}
		}
	}
	return strings.Join(in, ", ")
}
