package inbox

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// What a list shows at once, and how far one can turn its pages: each reads those before it again.
const (
	pageSize   = 50
	mostPages  = 40
	mostSearch = 200 // bytes
)

// tab is one of the lists.
type tab struct {
	Title, Short, Path string
	Here               bool
	empty              string
}

var tabs = []tab{
	{Title: "Waiting for you", Short: "Waiting for you", empty: "Nothing waits for you."},
	{Title: "Answered by you", Short: "Answered", Path: "answered",
		empty: "You have answered nothing yet, or it is no longer kept."},
	{Title: "Your calls", Short: "Your calls", Path: "began",
		empty: "No call of yours has asked people, or it is no longer kept."},
	rememberedTab,
}

// rememberedTab has a page of its own.
var rememberedTab = tab{Title: "Remembered approvals", Short: "Remembered", Path: "remembered",
	empty: "No approval that you could give is remembered, and none for your own calls."}

// Empty is what the list says if there is nothing in it.
func (t tab) Empty() string { return t.empty }

// order is a way to sort the questions of a list.
type order struct {
	Name, Title string
	Here        bool
	by          desk.Waiting
}

var orders = []order{
	{Name: "oldest", Title: "Oldest first"},
	{Name: "newest", Title: "Newest first", by: desk.Waiting{Newest: true}},
	{Name: "deadline", Title: "Nearest deadline first", by: desk.Waiting{ByDeadline: true}},
}

// list is the page of one list.
type list struct {
	view
	Tabs                []tab
	Tab                 tab
	Orders              []order
	Search, Note, Empty string
	Rows                []listed
	Tools               bool // there is something to search and to sort
	First, Number       int
	Previous, Next      string
}

// listed is a question in a list.
type listed struct {
	*desk.Question
	Link, Line, State string
	Urgent, Faded     bool
	Voted             bool // an accept of the person counts, and others are awaited
	Asked             moment
	Deadline          *moment
}

func newListed(q *desk.Question, p desk.Person, now time.Time) listed {
	s := newStanding(q, p)
	first, rest := headingOf(q)
	row := listed{Question: q, Link: linkTo(q.Name, q.Key),
		Line:  cmp.Or(oneLine(first), oneLine(rest), oneLine(q.AuthorKey), q.Name),
		State: s.Short, Urgent: s.Class == "failed", Voted: counts(q, p) && s.Class == "open",
		Asked: moment{q.Asked, now}}
	row.Faded = row.Voted || q.Claim != nil && q.Claim.By != p.Name
	if !q.Deadline.IsZero() && q.Status == task.QuestionOpen {
		row.Deadline = &moment{q.Deadline, now}
	}
	return row
}

func (in *Inbox) list(which tab) func(w http.ResponseWriter, r *http.Request, p desk.Person) {
	return func(w http.ResponseWriter, r *http.Request, p desk.Person) {
		query := r.URL.Query()
		l := &list{view: in.view(r, p, which.Title), Tab: which, Number: pageNumber(query.Get("page")),
			Search: query.Get("search"), Empty: which.empty}
		if len(l.Search) > mostSearch {
			in.say(w, r, p, http.StatusBadRequest, "The inbox does not understand this", "A search has at most 200 bytes.")
			return
		}
		for _, t := range tabs {
			t.Here = t.Path == which.Path
			l.Tabs = append(l.Tabs, t)
		}
		chosen := l.chooseOrder(which, query.Get("order"))
		if err := l.read(in.questions(r.Context(), which, p, chosen, l.Search), p); err != nil {
			in.failPage(w, r, p, err)
			return
		}
		l.turn(query)
		l.count()
		in.show(w, r, http.StatusOK, "list", l)
	}
}

func pageNumber(text string) int {
	n, _ := strconv.Atoi(text)
	return min(max(n, 1), mostPages)
}

// chooseOrder offers the orders of a list, and returns the chosen one.
func (l *list) chooseOrder(which tab, name string) (chosen order) {
	if which.Path != "" {
		return order{}
	}
	chosen = orders[0]
	for _, o := range orders {
		if o.Name == name {
			chosen = o
		}
	}
	for _, o := range orders {
		o.Here = o.Name == chosen.Name
		l.Orders = append(l.Orders, o)
	}
	if chosen.by.ByDeadline {
		l.Note = "Questions without a deadline are not in this order."
	}
	return chosen
}

// questions yields those of a list, in an order.
func (in *Inbox) questions(
	ctx context.Context, which tab, p desk.Person, o order, search string,
) iter.Seq2[*desk.Question, error] {
	switch which.Path {
	case "answered":
		return matching(in.desk.Answered(ctx, p), search)
	case "began":
		return matching(in.desk.Began(ctx, p), search)
	}
	w := o.by
	w.As, w.Search = &p, search
	return in.desk.Waiting(ctx, w)
}

// mostSearched is the number of questions that a search looks at.
const mostSearched = 10_000

// matching leaves only questions with a text, as desk.Waiting does.
func matching(all iter.Seq2[*desk.Question, error], search string) iter.Seq2[*desk.Question, error] {
	if search = strings.ToLower(search); search == "" {
		return all
	}
	return func(yield func(*desk.Question, error) bool) {
		n := 0
		for q, err := range all {
			if n++; n > mostSearched {
				return
			}
			if q != nil && !strings.Contains(strings.ToLower(strings.Join([]string{q.Message, q.Target, q.Principal, q.Name,
				q.Preview}, "\n")), search) {
				continue
			}
			if !yield(q, err) {
				return
			}
		}
	}
}

// read reads one page of a list. A question that cannot be read is left out, since it cannot be answered either.
func (l *list) read(questions iter.Seq2[*desk.Question, error], p desk.Person) error {
	now, skip := time.Now(), (l.Number-1)*pageSize
	l.First = skip + 1
	for q, err := range questions {
		switch {
		case err != nil && q == nil:
			return err
		case err != nil:
			l.Note = "A question of another release cannot be shown."
		case skip > 0:
			skip--
		case len(l.Rows) == pageSize:
			l.Next = "more"
			return nil
		default:
			l.Rows = append(l.Rows, newListed(q, p, now))
		}
	}
	return nil
}

// fewRows are seen at a glance, and need no tools.
const fewRows = 7

// count says how many questions wait, and moves those down that the person has voted on.
func (l *list) count() {
	l.Tools = len(l.Rows) > fewRows || l.Search != "" || l.Number > 1 ||
		slices.ContainsFunc(l.Orders[min(1, len(l.Orders)):], func(o order) bool { return o.Here })
	if l.Tab.Path != "" {
		return
	}
	var waits, voted []listed
	for _, row := range l.Rows {
		if row.Voted {
			voted = append(voted, row)
		} else {
			waits = append(waits, row)
		}
	}
	l.Rows = slices.Concat(waits, voted)
	switch {
	case l.Next != "", l.Number > 1:
		l.Waits = fmt.Sprintf("%d+", l.Number*pageSize)
	case len(waits) > 0:
		l.Waits = strconv.Itoa(len(waits))
	}
}

// turn makes the links to the pages before and after this one.
func (l *list) turn(query url.Values) {
	to := func(number int) string {
		next := url.Values{"page": {strconv.Itoa(number)}}
		for _, name := range []string{"search", "order"} {
			if value := query.Get(name); value != "" {
				next.Set(name, value)
			}
		}
		return "?" + next.Encode()
	}
	if l.Number > 1 {
		l.Previous = to(l.Number - 1)
	}
	if l.Next != "" {
		l.Next = to(l.Number + 1)
	}
	if l.Number == mostPages {
		l.Next, l.Note = "", "There may be more than can be listed: search, or choose another order."
	}
	if l.Search != "" {
		l.Empty = "Nothing here has this text."
	}
}
