package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/task"
)

// card is the page of one question.
type card struct {
	view
	Q        *desk.Question
	Link     string
	Title    template.HTML // the first line of the message, if it can be a heading, or the heading of its Markdown
	Message  template.HTML // the rest of it
	Preview  template.HTML
	Standing standing
	Asked    moment
	Deadline *moment
	Decided  *moment
	Accepted []string // who has given the votes that count
	For      []string
	Notes    []string
	Warning  string // what a person looks at before all else
	Count    []vote
	Earlier  []vote
	Events   []event
	Equal    []equal

	Arguments *code
	Excerpt   template.HTML // of arguments that are too large for a page
	All       string        // the way from the first page to all of them
	Receipt   string        // the way to the receipt of a decision
	Result    *code         // of a decision
	Edit      *edit         // of the arguments, by a decision
	Params    *code         // of a question that this release cannot show

	ClaimUntil moment

	Open    bool   // the person may answer
	Alone   bool   // nobody else may
	Next    string // the way from the first page to another question that waits for the person
	More    string // what else the person can do
	Closed  string // why not
	Why     string
	Mine    bool // the claim is the person's
	Fields  fields
	Shown   string
	Reason  string
	Page    *page
	Unknown string

	Refused   string // the ID of the form that was refused. The card has the text that was written in it
	To, Later string // whom to hand over to, and why the deadline is extended

	Others                      []string
	ClaimLengths, ExtendLengths []length
}

type vote struct {
	Who, Said, Channel, Why string
	Groups                  []string
	When                    moment
	Content                 *code
	Edit                    *edit
}

type event struct {
	Who, Said, Text string
	When            moment
}

type equal struct{ Name, Link string }

// length is a time to choose from.
type length struct {
	Value, Title string
	Picked       bool
}

func claimLengths(picked string) []length {
	return lengths(picked, "15m", "15 minutes", "1h", "1 hour", "4h", "4 hours", "24h", "24 hours")
}

func extendLengths(picked string) []length {
	return lengths(picked, "1h", "1 hour", "4h", "4 hours", "24h", "1 day", "168h", "7 days")
}

// lengths makes lengths of their values and titles.
func lengths(picked string, texts ...string) (all []length) {
	for pair := range slices.Chunk(texts, 2) {
		all = append(all, length{pair[0], pair[1], pair[0] == picked})
	}
	return all
}

// standing says how a question stands.
type standing struct {
	Text, Short string
	Class       string // "open", "accepted", "failed" or "over"
	You         string // what the person has done
}

func newStanding(q *desk.Question, p desk.Person) standing {
	s := standingOf(q)
	switch {
	case q.Decision != nil || q.Status != task.QuestionOpen:
		if v := voteOf(q, p.Name); v != nil {
			s.You = fmt.Sprintf("Your answer of %s is recorded: you %s it.", moment{Time: v.When}.Full(),
				strings.ToLower(done(v.Action)))
		}
	case counts(q, p):
		s.You = fmt.Sprintf("You have accepted. %s needed.", more(q.Votes-len(q.Count)))
		s.Short += ", one is yours"
	}
	return s
}

// counts reports whether an accept of somebody counts.
func counts(q *desk.Question, p desk.Person) bool {
	return slices.ContainsFunc(q.Count, func(v desk.Vote) bool { return v.Who == p.Name })
}

// voteOf returns the last vote of somebody, or nil.
func voteOf(q *desk.Question, name string) *desk.Vote {
	votes := slices.Concat(q.Earlier, q.Count)
	for i := range slices.Backward(votes) {
		if votes[i].Who == name {
			return &votes[i]
		}
	}
	return nil
}

func standingOf(q *desk.Question) standing {
	text := plain(q.Summary())
	first, _, _ := strings.Cut(text, " ")
	s := standing{Text: strings.ToUpper(text[:1]) + text[1:], Short: strings.TrimSuffix(first, ":"), Class: "over"}
	switch {
	case q.Decision != nil && q.Decision.Action == "accept":
		s.Class = "accepted"
	case q.Decision != nil:
		s.Class = "failed"
	case q.Status == task.QuestionOpen:
		s.Text, s.Class = "Open", "open" // the card shows the votes by themselves
		if q.Votes > 1 {
			s.Short = fmt.Sprintf("%d of %d votes", len(q.Count), q.Votes)
		}
	}
	return s
}

func more(n int) string {
	if n == 1 {
		return "One more vote is"
	}
	return fmt.Sprintf("%d more votes are", n)
}

// done is the past tense of an action.
func done(action string) string {
	switch action {
	case "accept":
		return "Accepted"
	case "decline":
		return "Declined"
	case "cancel":
		return "Dismissed"
	}
	return plain(action)
}

// longestHeading bounds a line that is a heading, in bytes.
const longestHeading = 300

func (in *Inbox) newCard(r *http.Request, p desk.Person, q *desk.Question) *card {
	now := time.Now()
	c := &card{view: in.view(r, p, "A question of "+oneLine(q.Target)), Q: q, Link: linkTo(q.Name, q.Key),
		Standing: newStanding(q, p), Asked: moment{q.Asked, now}, For: named(q.For), Arguments: newCode(q.Arguments),
		Mine: q.Claim != nil && q.Claim.By == p.Name, ClaimLengths: claimLengths(""), ExtendLengths: extendLengths("")}
	prose := linked
	if q.Markdown {
		prose = markdown
	}
	first, rest := headingOf(q)
	if c.Title = linked(first); first == "" {
		c.Title = isolated(c.Heading)
	} else {
		c.Heading = oneLine(first)
	}
	if rest != "" {
		c.Message = prose(rest)
	}
	if q.Excerpt != nil {
		c.Excerpt = isolated(foreign.JSON([]byte(q.Excerpt.Begin)))
		c.All = "api/questions/" + strings.TrimPrefix(c.Link, "q/") + "/arguments"
	}
	if q.Preview != "" {
		c.Preview = prose(q.Preview)
	}
	switch {
	case q.Decision != nil && len(q.Decision.By) > 0:
		c.Decided = &moment{q.Decision.When, now}
	case !q.Deadline.IsZero():
		c.Deadline = &moment{q.Deadline, now}
	}
	if q.Claim != nil {
		c.ClaimUntil = moment{q.Claim.Until, now}
	}
	if q.Fallback {
		c.Notes = append(c.Notes, "You see this question here because the host that made the call cannot show it.")
	}
	if q.Changed {
		c.Warning = "The server describes this tool otherwise than when you last accepted a call of it."
	}
	if q.Progress != "" {
		c.Notes = append(c.Notes, plain(q.Progress))
	}
	for _, v := range q.Count {
		if v.Action == "accept" {
			c.Accepted = append(c.Accepted, v.Who)
		}
		c.Count = append(c.Count, newVote(q, v, now))
	}
	for _, v := range q.Earlier {
		c.Earlier = append(c.Earlier, newVote(q, v, now))
	}
	for _, e := range q.Events {
		c.Events = append(c.Events, event{e.Who, plain(e.Kind), e.Text, moment{e.When, now}})
	}
	for _, name := range q.Equal {
		c.Equal = append(c.Equal, equal{name, linkTo(name, q.Key)})
	}
	for _, entry := range q.For {
		if name, found := strings.CutPrefix(entry, "user:"); found && name != p.Name {
			c.Others = append(c.Others, name)
		}
	}
	c.Alone = len(q.For) == 1 && q.For[0] == "user:"+p.Name
	switch {
	case c.Alone && c.Deadline == nil:
		c.More = "Dismiss"
	case c.Alone:
		c.More = "Extend the deadline, or dismiss"
	case c.Deadline == nil:
		c.More = "Claim, hand over, or dismiss"
	default:
		c.More = "Claim, hand over, extend the deadline, or dismiss"
	}
	may := q.May(p)
	c.Open = q.Status == task.QuestionOpen && may == nil
	switch {
	case c.Open:
	case q.Status == task.QuestionOpen && errors.Is(may, desk.ErrOwnCall):
		c.Closed, c.Why = "Somebody else must answer", "The call is your own. Nobody decides what their own call asks."
	case q.Status == task.QuestionOpen:
		c.Closed, c.Why = "Others must answer", "You may read this question, but others must answer it now."
	default:
		c.Closed = c.Standing.Text
		if q.Decision != nil {
			c.Result, c.Edit = contentOf(q, q.Decision.Content)
		}
	}
	return c
}

// named shows who may answer.
func named(entries []string) []string {
	var names []string
	for _, e := range entries {
		if group, found := strings.CutPrefix(e, "group:"); found {
			e = "anybody of " + group
		} else {
			e = strings.TrimPrefix(e, "user:")
		}
		names = append(names, e)
	}
	return names
}

func newVote(q *desk.Question, v desk.Vote, now time.Time) vote {
	content, edited := contentOf(q, v.Content)
	return vote{v.Who, strings.ToLower(done(v.Action)), v.Channel, v.Why, v.Groups, moment{v.When, now}, content, edited}
}

// contentOf shows the content of an answer: what it changes in the arguments of the call, or else all of it.
func contentOf(q *desk.Question, content json.RawMessage) (*code, *edit) {
	if edited := editOf(q, content); edited != nil {
		return nil, edited
	}
	if len(content) <= len("{}") {
		return nil, nil
	}
	return newCode(content), nil
}

// heading matches a heading of Markdown: its text.
var heading = regexp.MustCompile(`^#{1,6}[ \t]+(.*?)[ \t]*#*$`)

// headingOf returns the first line of a message, if it can be a heading, and the rest.
func headingOf(q *desk.Question) (first, rest string) {
	message := strings.TrimSpace(q.Message)
	first, rest, _ = strings.Cut(message, "\n")
	if q.Markdown {
		m := heading.FindStringSubmatch(strings.TrimSpace(first))
		if m == nil {
			return "", message
		}
		first = m[1]
	}
	if len(first) > longestHeading {
		return "", message
	}
	return first, strings.TrimSpace(rest)
}

// next returns the way to another question that waits for a person and that they have not voted on, or to the list.
func (in *Inbox) next(ctx context.Context, p desk.Person, q *desk.Question) string {
	n := 0
	for other, err := range in.desk.Waiting(ctx, desk.Waiting{As: &p}) {
		switch n++; {
		case err != nil && other == nil, n > 4*pageSize:
			return "."
		case err != nil, other.Name == q.Name && other.Key == q.Key, counts(other, p):
		default:
			return linkTo(other.Name, other.Key)
		}
	}
	return ""
}

// ask makes the form of an open question, which shows the content that was proposed, or else the defaults.
func (c *card) ask(shown json.RawMessage) {
	c.Shown = string(shown)
	switch {
	case c.Q.Method != input.MethodElicit || c.Q.Mode != "form" && c.Q.Mode != "url":
		c.Unknown = "This page cannot show the question, so nobody can accept it here."
	case c.Q.Mode == "url":
		var ok bool
		if c.Page, ok = newPage(c.Q.URL); !ok {
			c.Unknown = "The address of the page is not valid, so nobody can accept it here."
		}
	default:
		schema, err := form.Read(c.Q.Schema)
		if err != nil {
			c.Unknown = "The form of this question is not valid, so nobody can accept it: " + oneLine(err.Error())
			break
		}
		c.Fields = newFields(schema, shown)
	}
	if c.Unknown != "" {
		c.Params = newCode(c.Q.Params)
	}
}

// said holds the words after an action. The address of the page has only their names, so that a link cannot put other
// words into the inbox's mouth.
var said = map[string]string{
	"accept": "Your answer is recorded.", "decline": "You have declined.", "cancel": "You have dismissed the question.",
	"claim": "The question is claimed.", "release": "Your claim is released.", "handover": "The question is handed over.",
	"extend": "The deadline is extended.",
}

func (in *Inbox) card(w http.ResponseWriter, r *http.Request, p desk.Person) {
	q, err := in.desk.Question(r.Context(), r.PathValue("name"), r.PathValue("key"), &p)
	if q == nil {
		in.failPage(w, r, p, err)
		return
	}
	c := in.newCard(r, p, q)
	if err != nil {
		in.log.ErrorContext(r.Context(), "inbox: a question cannot be read", "name", q.Name, "error", err)
		c.Open, c.Closed, c.Problem = false, "It cannot be answered here", "Not all of this question can be read."
	}
	do := r.URL.Query().Get("done")
	c.Told, c.Done = said[do], do == "accept"
	if c.Standing.You != "" {
		c.Next = in.next(r.Context(), p, q)
	}
	if c.Decided != nil {
		if _, err := in.desk.Receipt(r.Context(), q.Name, q.Key, &p); err == nil {
			c.Receipt = "api/questions/" + strings.TrimPrefix(c.Link, "q/") + "/receipt"
		}
	}
	if c.Open {
		c.ask(q.Proposal)
	}
	in.show(w, r, http.StatusOK, "card", c)
}

// act carries out the action of a form on the page of a question.
func (in *Inbox) act(w http.ResponseWriter, r *http.Request, p desk.Person) {
	if err := r.ParseForm(); err != nil {
		in.say(w, r, p, http.StatusBadRequest,
			"The inbox does not understand this", "The form did not arrive whole. Send it again.")
		return
	}
	name, key, do := r.PathValue("name"), r.PathValue("key"), r.PostForm.Get("do")
	q, err := in.desk.Question(r.Context(), name, key, &p)
	if err == nil {
		err = q.May(p)
	}
	if err != nil {
		in.failPage(w, r, p, err)
		return
	}
	c := in.newCard(r, p, q)
	if do == "accept" || do == "decline" || do == "cancel" {
		err = in.answer(r, p, c, do)
	} else {
		err = in.change(r, p, q, do)
	}
	switch {
	case err != nil:
		in.refuse(w, r, p, c, err)
	case r.Header.Get("Prefer") == "return=minimal": // RFC 7240: the script of the page, which leads there itself
		w.Header().Set("Preference-Applied", "return=minimal")
		w.WriteHeader(http.StatusNoContent)
	default:
		leadTo(w, r, c.Link+"?done="+do)
	}
}

// errFields refers to the problems that the fields of the form show.
var errFields = &desk.InvalidError{Reason: "Not everything in the form can be taken: see below."}

func (in *Inbox) answer(r *http.Request, p desk.Person, c *card, do string) error {
	content, sound := c.keep(r.PostForm, do)
	a := desk.Answer{By: p, Action: do, Channel: "inbox", Reason: strings.TrimSpace(c.Reason)}
	if do == "accept" {
		if !sound {
			return errFields
		}
		if c.Fields != nil {
			a.Content = content
		}
	}
	_, err := in.desk.Answer(r.Context(), c.Q.Name, c.Q.Key, a)
	return err
}

// keep fills the card in with a form that somebody has sent. It returns the content of their answer, if that fits.
func (c *card) keep(sent url.Values, do string) (content json.RawMessage, sound bool) {
	reason := strings.ReplaceAll(sent.Get("reason"), "\r\n", "\n")
	switch do {
	case "claim", "release", "handover", "extend":
		if do == "release" {
			do = "claim"
		}
		c.Refused, c.To, c.Later = do+"-form", sent.Get("to"), reason
		c.ClaimLengths, c.ExtendLengths = claimLengths(sent.Get("for")), extendLengths(sent.Get("for"))
		if !c.Open {
			c.Reason = reason
		}
		return nil, false
	}
	shown := json.RawMessage(sent.Get("shown"))
	if strictjson.Check(shown, strictjson.MaxDepth) != nil {
		shown = nil
	}
	c.Refused, c.Reason = "answer-form", reason
	c.ask(shown)
	content, sound = c.Fields.read(sent, shown)
	for _, f := range c.Fields {
		if do != "accept" || !c.Open {
			f.Problem = ""
		}
	}
	return content, sound
}

func (in *Inbox) change(r *http.Request, p desk.Person, q *desk.Question, do string) error {
	length, err := time.ParseDuration(r.PostForm.Get("for"))
	if err != nil && do != "release" {
		return &desk.InvalidError{Reason: "Choose for how long."}
	}
	ctx := r.Context()
	switch do {
	case "claim":
		_, err = in.desk.Claim(ctx, q.Name, q.Key, p, length)
	case "release":
		_, err = in.desk.Claim(ctx, q.Name, q.Key, p, 0)
	case "handover":
		_, err = in.desk.HandOver(ctx, q.Name, q.Key, p, strings.TrimSpace(r.PostForm.Get("to")), length)
	case "extend":
		from, err := time.Parse(time.RFC3339, r.PostForm.Get("from")) // so that a form that is sent again extends it once
		if err != nil {
			return &desk.InvalidError{Reason: "The form has no deadline to extend."}
		}
		_, err = in.desk.Extend(ctx, q.Name, q.Key, p, from.Add(length), strings.TrimSpace(r.PostForm.Get("reason")))
		return err
	default:
		return &desk.InvalidError{Reason: "The form does not say what to do."}
	}
	return err
}

// refuse shows the page of a question again, with the reason why nothing was recorded, and with the person's text in
// the form: nobody should have to write it twice.
func (in *Inbox) refuse(w http.ResponseWriter, r *http.Request, p desk.Person, c *card, err error) {
	do := r.PostForm.Get("do")
	var (
		closed  *desk.ClosedError
		invalid *desk.InvalidError
		status  = http.StatusUnprocessableEntity
	)
	switch {
	case errors.As(err, &closed):
		q, err := in.desk.Question(r.Context(), c.Q.Name, c.Q.Key, &p)
		if q == nil {
			in.failPage(w, r, p, err)
			return
		}
		c, status = in.newCard(r, p, q), http.StatusConflict
		c.Problem = "Your answer came too late and is not recorded. "
		if c.Standing.You != "" { // perhaps the same answer, whose response was lost
			c.Problem = c.Standing.You + " What you have sent now changes nothing. "
		}
		c.Problem += tooLate(closed)
	case errors.As(err, &invalid):
		c.Problem = capital(plain(invalid.Reason))
	case errors.Is(err, task.ErrNotFound), errors.Is(err, desk.ErrOwnCall):
		in.failPage(w, r, p, err)
		return
	default:
		in.log.ErrorContext(r.Context(), "inbox: an answer may not be recorded", "name", c.Q.Name, "error", err)
		status, c.Problem = http.StatusServiceUnavailable,
			"Your answer may be recorded or not. Send it again: the same answer counts once."
	}
	c.keep(r.PostForm, do)
	if c.Open && c.Fields == nil && c.Page == nil && c.Unknown == "" {
		c.ask(c.Q.Proposal)
	}
	in.show(w, r, status, "card", c)
}

// tooLate names who was first, or the deadline that has passed.
func tooLate(e *desk.ClosedError) string {
	at := func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04:05 UTC") }
	switch {
	case e.Decision != nil:
		var who []string
		for _, by := range e.Decision.By {
			who = append(who, plain(by.Who))
		}
		return fmt.Sprintf("%s had %s it at %s.", strings.Join(who, " and "), strings.ToLower(done(e.Decision.Action)),
			at(e.Decision.When))
	case !e.Deadline.IsZero():
		return "The deadline was " + at(e.Deadline) + "."
	}
	return "The call has ended, or no longer asks."
}
