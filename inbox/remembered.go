package inbox

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/excerpt"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/task"
)

// The bounds of the page of what is remembered. It has the beginning of arguments only.
const (
	rememberedRows    = 30
	rememberedExcerpt = 200 // bytes
)

// remembered is the page of the approvals that let further calls pass.
type remembered struct {
	view
	Tabs []tab
	Tab  tab
	Rows []rememberedRow
	Note string
}

type rememberedRow struct {
	*desk.Remembered
	Arguments template.HTML
	Who       string
	Decided   moment
	Until     moment
}

func (in *Inbox) remembered(w http.ResponseWriter, r *http.Request, p desk.Person) {
	in.showRemembered(w, r, p, &problem{Status: http.StatusOK})
}

// showRemembered shows the page, with what has gone wrong before.
func (in *Inbox) showRemembered(w http.ResponseWriter, r *http.Request, p desk.Person, failed *problem) {
	page := &remembered{view: in.view(r, p, rememberedTab.Title), Tab: rememberedTab}
	for _, t := range tabs {
		t.Here = t.Path == rememberedTab.Path
		page.Tabs = append(page.Tabs, t)
	}
	if r.URL.Query().Has("ended") {
		page.Told = "It is not remembered any more: the next call is asked for."
	}
	page.Problem = plain(failed.Title)
	now := time.Now()
	for m, err := range in.desk.Remembered(r.Context(), &p) {
		if m == nil {
			in.failPage(w, r, p, err)
			return
		}
		if len(page.Rows) == rememberedRows {
			page.Note = fmt.Sprintf("These are the last %d. 'askback inbox remembered' lists all.", rememberedRows)
			break
		}
		if err != nil {
			page.Note = "Not all of them can be read here."
		}
		row := rememberedRow{Remembered: m, Decided: moment{m.Decided, now}, Until: moment{m.Until, now}}
		begin := excerpt.Of(m.Excerpt.Begin, rememberedExcerpt)
		if row.Arguments = isolated(foreign.JSON([]byte(begin))); len(begin) < m.Excerpt.Size {
			row.Arguments += template.HTML(fmt.Sprintf(" … (%d bytes)", m.Excerpt.Size))
		}
		var who []string
		for _, by := range m.By {
			who = append(who, plain(by.Who))
		}
		row.Who = strings.Join(who, " and ")
		page.Rows = append(page.Rows, row)
	}
	in.show(w, r, failed.Status, "remembered", page)
}

// forget ends what the form names.
func (in *Inbox) forget(w http.ResponseWriter, r *http.Request, p desk.Person) {
	err := r.ParseForm()
	if err != nil {
		err = &desk.InvalidError{Reason: "the form did not arrive whole: send it again"}
	} else {
		_, err = in.desk.Forget(r.Context(), r.PostForm.Get("name"), &p)
	}
	if err != nil {
		problem, known := notRemembered(err)
		if !known {
			in.log.ErrorContext(r.Context(), "inbox: what is remembered may not have ended", "error", err)
		}
		in.showRemembered(w, r, p, problem)
		return
	}
	leadTo(w, r, rememberedTab.Path+"?"+url.Values{"ended": {"1"}}.Encode())
}

// notRemembered is problemOf for what is remembered. It may have ended already: the request was sent again, or somebody
// else was faster.
func notRemembered(err error) (p *problem, known bool) {
	if errors.Is(err, task.ErrNotFound) {
		return &problem{kind: "not-found", Status: http.StatusNotFound,
			Title: "Nothing of this name is remembered, or it does not concern you."}, true
	}
	return problemOf(err)
}

// shownRemembered is one page of what is remembered, as programs see it.
type shownRemembered struct {
	Remembered []*desk.Remembered `json:"remembered"`
	More       bool               `json:"more,omitempty"` // there are further ones
}

func (a *api) remembered(w http.ResponseWriter, r *http.Request, p desk.Person) {
	list := shownRemembered{Remembered: []*desk.Remembered{}}
	for m, err := range a.desk.Remembered(r.Context(), &p) {
		if m == nil {
			a.fail(w, r, err)
			return
		}
		if list.More = len(list.Remembered) == mostLimit; list.More {
			break
		}
		list.Remembered = append(list.Remembered, m)
	}
	a.reply(w, r, list)
}

// rememberedReceipt sends the receipt of the approval, which a browser stores in a file.
func (a *api) rememberedReceipt(w http.ResponseWriter, r *http.Request, p desk.Person) {
	err := fmt.Errorf("%w: nothing of this name is remembered", task.ErrNotFound)
	for m, failed := range a.desk.Remembered(r.Context(), &p) {
		switch {
		case m == nil:
			err = failed
		case m.Name == r.PathValue("name") && m.Receipt != "":
			w.Header().Set("Content-Disposition", `attachment; filename="receipt.json"`)
			a.reply(w, r, desk.Receipt{JWS: m.Receipt})
			return
		}
	}
	a.failRemembered(w, r, err)
}

// failRemembered is fail for what is remembered.
func (a *api) failRemembered(w http.ResponseWriter, r *http.Request, err error) {
	if problem, known := notRemembered(err); known {
		refuse(w, r, problem)
		return
	}
	a.fail(w, r, err)
}

func (a *api) forget(w http.ResponseWriter, r *http.Request, p desk.Person) {
	var body struct{}
	if problem := readChange(r, &body); problem != nil {
		refuse(w, r, problem)
		return
	}
	m, err := a.desk.Forget(r.Context(), r.PathValue("name"), &p)
	if err != nil {
		a.failRemembered(w, r, err)
		return
	}
	a.reply(w, r, m)
}
