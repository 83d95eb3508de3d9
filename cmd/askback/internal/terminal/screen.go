package terminal

import (
	"slices"
	"strings"
	"unicode/utf8"

	"charm.land/bubbles/v2/textarea"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

const (
	widest     = 80 // columns, on a terminal of any width
	proseRows  = 6
	promptMark = "> " // before a line that a person types
)

// screen is a question drawn on a terminal: its fields, and below them the actions.
type screen struct {
	*prompt
	inputs  []input
	actions []action
	focus   int      // the index of a field or, counting on, of an action
	wrong   []string // the problem of each field that the person has left
	result  action   // the decision
	over    bool

	reviewing     bool
	leaving       bool // the person has pressed Esc and is asked what that means
	resume        int  // the focus before
	width, height int
	room          int  // the number of lines of the middle in view
	top           int  // the first line in view
	scrolled      bool // the person has scrolled, so the focus may be out of view
}

// input is the part of a field that takes keys.
type input struct {
	editor editor // the editor of the filter for a long list; nil for a short one
	cursor int    // the option that the arrows point at
	before string // the answer when the question was put
}

// editor is a *textinput.Model or, for prose, a *textarea.Model.
type editor interface {
	Focus() tea.Cmd
	Blur()
	SetWidth(columns int)
	Value() string
	View() string
}

// stop is the message that ends the screen without a decision.
type stop struct{}

func newScreen(p *prompt) *screen {
	s := &screen{prompt: p, result: p.unanswered(), inputs: make([]input, len(p.fields)),
		wrong: make([]string, len(p.fields))}
	for i, f := range p.fields {
		if f.isChoice() {
			s.inputs[i].cursor = f.pointAt()
		}
		switch {
		case f.isChoice() && !f.isLong():
		case f.kind == prose:
			area := textarea.New()
			area.ShowLineNumbers = false
			area.Prompt = ""
			area.CharLimit = maxText
			area.SetHeight(proseRows)
			styles := area.Styles()
			styles.Focused, styles.Blurred = textarea.StyleState{}, textarea.StyleState{}
			styles.Cursor.Blink = false
			area.SetStyles(styles)
			s.inputs[i].editor = &area
		default:
			line := textinput.New()
			line.Prompt = promptMark
			line.CharLimit = maxText
			styles := line.Styles()
			styles.Focused, styles.Blurred = textinput.StyleState{Prompt: accent}, textinput.StyleState{Prompt: faint}
			styles.Cursor.Blink = false
			line.SetStyles(styles)
			line.SetValue(f.text)
			f.text = line.Value() // the person sends what the input shows
			s.inputs[i].editor = &line
		}
		s.inputs[i].before = string(f.raw())
	}
	s.resize(widest, 24)
	s.decide()
	return s
}

// pointAt returns the option that the arrows point at first: the default, or else the first one. A question of yes or
// no points at no, because one Enter may send the answer.
func (f *field) pointAt() int {
	if at := slices.Index(f.picked, true); at >= 0 {
		return at
	}
	return max(0, slices.IndexFunc(f.options, func(o option) bool { return o.value == false }))
}

// decide sets the actions and the focus for a new screen or review.
func (s *screen) decide() {
	s.actions, s.focus = s.prompt.actions(s.reviewing), 0
	switch {
	case s.reviewing:
		s.focus = len(s.fields)
	case len(s.fields) == 0 && s.prompt.accept != "":
		s.focus = 1 // not on accept: one Enter too many would accept a question that nobody has read
	}
	// A question is shown from its beginning, and a review with its actions.
	s.top, s.scrolled = 0, !s.reviewing
}

func (s *screen) name(a action) string {
	if a == accept && s.review && !s.reviewing {
		return "Review"
	}
	return s.prompt.name(a)
}

func (s *screen) Init() tea.Cmd { return s.attend() }

// attend gives the keyboard to the field with the focus.
func (s *screen) attend() tea.Cmd {
	var cmd tea.Cmd
	for i, in := range s.inputs {
		switch {
		case in.editor == nil:
		case i == s.focus: // which is behind all fields during the review
			cmd = in.editor.Focus()
		default:
			in.editor.Blur()
		}
	}
	return cmd
}

func (s *screen) resize(width, height int) {
	s.width, s.height = max(min(width, widest), 20), max(height, 6)
	for _, in := range s.inputs {
		if in.editor != nil {
			in.editor.SetWidth(s.inner() - len(promptMark) - 1) // the cursor may stand behind the text
		}
	}
}

// inner is the width of text between the left margin and the free column on the right.
func (s *screen) inner() int { return s.width - 3 }

func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.resize(msg.Width, msg.Height)
		return s, nil
	case stop:
		return s, s.end(s.unanswered())
	case tea.KeyPressMsg:
		return s, s.press(msg)
	}
	return s, s.edit(msg)
}

func (s *screen) end(a action) tea.Cmd {
	s.result, s.over = a, true
	return tea.Quit
}

func (s *screen) press(msg tea.KeyPressMsg) tea.Cmd {
	key := msg.String()
	s.scrolled = key == "pgup" || key == "pgdown"
	switch key {
	case "ctrl+c":
		return s.end(interrupt)
	case "esc":
		return s.leave()
	case "pgup":
		s.top -= s.room - 1 // View limits it
		return nil
	case "pgdown":
		s.top += s.room - 1
		return nil
	case "tab":
		return s.move(s.focus + 1)
	case "shift+tab":
		return s.move(s.focus - 1)
	}
	if s.onAction() {
		switch key {
		case "left", "up", "h", "k":
			return s.move(s.focus - 1)
		case "right", "down", "l", "j":
			return s.move(s.focus + 1)
		case "enter", "space":
			return s.take(s.actions[s.focus-len(s.fields)])
		}
		return nil
	}
	f := s.fields[s.focus]
	switch {
	case f.isChoice():
		return s.choose(f, msg)
	case f.kind == prose:
		return s.edit(msg)
	case key == "enter":
		return s.next()
	case key == "up":
		return s.move(s.focus - 1)
	case key == "down":
		return s.move(s.focus + 1)
	}
	return s.edit(msg)
}

func (s *screen) onAction() bool { return s.focus >= len(s.fields) }

// leave cancels the question if nothing would be lost, and else asks what Esc means. A second Esc goes back.
func (s *screen) leave() tea.Cmd {
	switch {
	case s.leaving:
		return s.take(stay)
	case s.losesNothing():
		return s.end(cancel)
	}
	s.leaving, s.resume = true, s.focus
	s.actions, s.focus = append([]action{stay}, s.ways()...), len(s.fields)
	return s.attend()
}

// losesNothing reports whether the person can only cancel, and has nothing to fill in again: there is one field at
// most, and no answer in it.
func (s *screen) losesNothing() bool {
	return !s.later && (len(s.fields) == 0 || len(s.fields) == 1 && !s.filled())
}

// filled reports whether the person has changed an answer.
func (s *screen) filled() bool {
	for i, f := range s.fields {
		if string(f.raw()) != s.inputs[i].before {
			return true
		}
	}
	return false
}

// move moves the focus. It checks the field that the person leaves, but does not hold the person back.
func (s *screen) move(to int) tea.Cmd {
	first := 0
	if s.reviewing || s.leaving {
		first = len(s.fields)
	}
	if to < first || to >= len(s.fields)+len(s.actions) {
		return nil
	}
	if !s.onAction() {
		s.wrong[s.focus] = s.fields[s.focus].problem()
	}
	s.focus = to
	return s.attend()
}

// next moves to the next field if this one is valid. Behind the last field the form is complete.
func (s *screen) next() tea.Cmd {
	if s.wrong[s.focus] = s.fields[s.focus].problem(); s.wrong[s.focus] != "" {
		return nil
	}
	if s.focus == len(s.fields)-1 {
		return s.take(accept)
	}
	return s.move(s.focus + 1)
}

// edit passes a key or pasted text to the editor of the field.
func (s *screen) edit(msg tea.Msg) tea.Cmd {
	if s.onAction() || s.inputs[s.focus].editor == nil {
		return nil
	}
	var cmd tea.Cmd
	f, in := s.fields[s.focus], &s.inputs[s.focus]
	switch editor := in.editor.(type) {
	case *textinput.Model:
		*editor, cmd = editor.Update(msg)
	case *textarea.Model:
		*editor, cmd = editor.Update(msg)
	}
	switch typed := in.editor.Value(); {
	case !f.isChoice():
		f.text = typed
	case typed != f.filter:
		f.filter = typed
		if at := f.nearest(typed); at >= 0 && typed != "" {
			f.point(in, at)
		}
	}
	s.judge()
	return cmd
}

// judge checks a field with a problem again, so that the message disappears with its cause.
func (s *screen) judge() {
	if s.wrong[s.focus] != "" {
		s.wrong[s.focus] = s.fields[s.focus].problem()
	}
}

// choose passes a key to a list. What is no key of the list filters a long one, and is the first letter of an option of
// a short one.
func (s *screen) choose(f *field, msg tea.KeyPressMsg) tea.Cmd {
	in := &s.inputs[s.focus]
	shown := f.matching(f.filter)
	to, last := slices.Index(shown, in.cursor), len(shown)-1
	switch key := msg.String(); {
	case key == "up" || key == "ctrl+p":
		to--
	case key == "down" || key == "ctrl+n":
		to++
	case key == "home":
		to = 0
	case key == "end":
		to = last
	case key == "enter":
		if f.kind != many && last >= 0 {
			f.pick(in.cursor)
		}
		return s.next()
	case key == "space" && f.kind == many:
		if last >= 0 {
			f.picked[in.cursor] = !f.picked[in.cursor]
		}
	case f.isLong():
		return s.edit(msg)
	case key != "space":
		if to = f.findByLetter(key, in.cursor); to < 0 {
			return nil
		}
	}
	if last >= 0 {
		f.point(in, shown[max(0, min(to, last))])
	}
	s.judge()
	return nil
}

// point moves the cursor to an option, which is the answer where one is chosen.
func (f *field) point(in *input, option int) {
	in.cursor = option
	if f.kind != many {
		f.pick(option)
	}
}

// pick makes one option the answer.
func (f *field) pick(i int) {
	clear(f.picked)
	f.picked[i] = true
}

// findByLetter returns the next option that starts with a letter, or -1.
func (f *field) findByLetter(letter string, after int) int {
	for i := range f.options {
		option := (after + 1 + i) % len(f.options)
		_, n := utf8.DecodeRuneInString(f.options[option].label)
		if strings.EqualFold(f.options[option].label[:n], letter) {
			return option
		}
	}
	return -1
}

func (s *screen) take(a action) tea.Cmd {
	switch {
	case a == stay:
		s.leaving = false
		s.decide()
		s.focus, s.scrolled = s.resume, false
		return s.attend()
	case a == change:
		s.reviewing = false
		s.decide()
		return s.attend()
	case a != accept || s.reviewing:
		return s.end(a)
	}
	for i, f := range s.fields {
		s.wrong[i] = f.problem()
	}
	first := slices.IndexFunc(s.wrong, func(problem string) bool { return problem != "" })
	switch {
	case first >= 0:
		s.focus = first
	case s.review:
		s.reviewing = true
		s.decide()
	default:
		return s.end(accept)
	}
	return s.attend()
}
