package terminal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"charm.land/bubbles/v2/textarea"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

// The terminal's own sixteen colours only: they go with whatever background it has.
var (
	bold   = lipgloss.NewStyle().Bold(true)
	faint  = lipgloss.NewStyle().Faint(true)
	accent = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	wrong  = lipgloss.NewStyle().Foreground(lipgloss.Red)
	alarm  = lipgloss.NewStyle().Foreground(lipgloss.Yellow).Bold(true)
	chosen = lipgloss.NewStyle().Bold(true).Reverse(true)
	host   = lipgloss.NewStyle().Bold(true).Underline(true)
)

const (
	widest    = 80 // columns, however wide the terminal is
	proseRows = 6
)

// screen is a question drawn on a terminal: fields to move about in, and below them what to decide.
type screen struct {
	*prompt
	inputs  []input
	actions []action
	focus   int      // a field, or behind the fields an action
	wrong   []string // what is wrong with each field, once the person has left it
	result  action
	over    bool

	reviewing     bool
	width, height int
	top           int  // the first line of the middle that is in view
	scrolled      bool // by the person, so that the focus need not be in view
}

// input is how a field is filled in. One of the first two is used for fields that are typed.
type input struct {
	line   textinput.Model
	area   textarea.Model
	cursor int // the option at which a person who chooses stands
}

// askOnScreen puts a question on a terminal that can be drawn on.
func (t *Terminal) askOnScreen(ctx context.Context, p *prompt) (action, error) {
	s := newScreen(p)
	program := tea.NewProgram(s, tea.WithInput(t.in()), tea.WithOutput(t.out()), tea.WithEnvironment(t.environ()),
		tea.WithoutSignalHandler())
	// Not tea.WithContext, which leaves on the terminal what was drawn last.
	stop := context.AfterFunc(ctx, func() { program.Send(tea.QuitMsg{}) })
	defer stop()
	_, err := program.Run()
	return s.result, err
}

func newScreen(p *prompt) *screen {
	s := &screen{prompt: p, inputs: make([]input, len(p.fields)), wrong: make([]string, len(p.fields))}
	for i, f := range p.fields {
		switch {
		case f.isChoice():
			s.inputs[i].cursor = max(0, slices.Index(f.picked, true))
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
			s.inputs[i].area = area
		default:
			input := textinput.New()
			input.Prompt = "> "
			input.CharLimit = maxText
			styles := input.Styles()
			styles.Focused, styles.Blurred = textinput.StyleState{Prompt: accent}, textinput.StyleState{Prompt: faint}
			styles.Cursor.Blink = false
			input.SetStyles(styles)
			input.SetValue(f.text)
			f.text = input.Value() // what is shown is what is sent
			s.inputs[i].line = input
		}
	}
	s.resize(widest, 24)
	s.decide()
	return s
}

// decide sets what there is to decide, and where the person stands.
func (s *screen) decide() {
	switch {
	case s.prompt.accept == "":
		s.actions, s.focus = []action{decline, cancel}, len(s.fields)
	case s.reviewing:
		s.actions, s.focus = []action{accept, change, decline, cancel}, len(s.fields)
	case len(s.fields) == 0:
		// Nothing was filled in, so an Enter too many would say yes to what nobody read.
		s.actions, s.focus = []action{accept, decline, cancel}, 1
	default:
		s.actions, s.focus = []action{accept, decline, cancel}, 0
	}
	s.top, s.scrolled = 0, false
}

func (s *screen) name(a action) string {
	switch a {
	case accept:
		if s.review && !s.reviewing {
			return "Review"
		}
		return s.prompt.accept
	case change:
		return "Change"
	case decline:
		return "Decline"
	}
	return "Cancel"
}

func (s *screen) Init() tea.Cmd { return s.attend() }

// attend gives the keyboard to the field that has the focus.
func (s *screen) attend() tea.Cmd {
	var cmd tea.Cmd
	for i, f := range s.fields {
		here := i == s.focus && !s.reviewing
		switch {
		case f.isChoice():
		case f.kind == prose && here:
			cmd = s.inputs[i].area.Focus()
		case f.kind == prose:
			s.inputs[i].area.Blur()
		case here:
			cmd = s.inputs[i].line.Focus()
		default:
			s.inputs[i].line.Blur()
		}
	}
	return cmd
}

func (s *screen) resize(width, height int) {
	s.width, s.height = max(min(width, widest), 20), max(height, 6)
	for i, f := range s.fields {
		switch {
		case f.isChoice():
		case f.kind == prose:
			s.inputs[i].area.SetWidth(s.inner())
		default:
			s.inputs[i].line.SetWidth(s.inner() - len("> ") - 1)
		}
	}
}

// inner is the width of text, between the margin on the left and the column on the right that stays free.
func (s *screen) inner() int { return s.width - 3 }

func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.resize(msg.Width, msg.Height)
		return s, nil
	case tea.QuitMsg:
		return s, s.end(cancel)
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
	switch key {
	case "ctrl+c", "esc":
		return s.end(cancel)
	case "pgup":
		s.top, s.scrolled = s.top-s.room()+1, true // View keeps it in bounds
		return nil
	case "pgdown":
		s.top, s.scrolled = s.top+s.room()-1, true
		return nil
	}
	s.scrolled = false
	switch key {
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
		return s.choose(f, key)
	case f.kind == prose:
		return s.edit(msg)
	}
	switch key {
	case "enter":
		return s.next()
	case "up":
		return s.move(s.focus - 1)
	case "down":
		return s.move(s.focus + 1)
	}
	return s.edit(msg)
}

func (s *screen) onAction() bool { return s.focus >= len(s.fields) }

// move goes to another field or action. What was left behind is judged; nobody is held back.
func (s *screen) move(to int) tea.Cmd {
	first := 0
	if s.reviewing || len(s.fields) == 0 {
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

// next goes on to the next field if this one is right.
func (s *screen) next() tea.Cmd {
	if s.wrong[s.focus] = s.fields[s.focus].problem(); s.wrong[s.focus] != "" {
		return nil
	}
	return s.move(s.focus + 1)
}

// edit hands a key, or text that is pasted, to what is typed in.
func (s *screen) edit(msg tea.Msg) tea.Cmd {
	if s.onAction() || s.fields[s.focus].isChoice() {
		return nil
	}
	var cmd tea.Cmd
	f, in := s.fields[s.focus], &s.inputs[s.focus]
	if f.kind == prose {
		in.area, cmd = in.area.Update(msg)
		f.text = in.area.Value()
	} else {
		in.line, cmd = in.line.Update(msg)
		f.text = in.line.Value()
	}
	s.judge()
	return cmd
}

// judge looks again at a field that was wrong, so that the complaint goes when its cause does.
func (s *screen) judge() {
	if s.wrong[s.focus] != "" {
		s.wrong[s.focus] = s.fields[s.focus].problem()
	}
}

func (s *screen) choose(f *field, key string) tea.Cmd {
	in := &s.inputs[s.focus]
	untouched := f.kind != many && !slices.Contains(f.picked, true)
	switch key {
	case "up", "ctrl+p":
		in.cursor = max(0, in.cursor-1)
	case "down", "ctrl+n":
		if !untouched || in.cursor > 0 {
			in.cursor = min(len(f.options)-1, in.cursor+1)
		}
	case "home":
		in.cursor = 0
	case "end":
		in.cursor = len(f.options) - 1
	case "space":
		if f.kind == many {
			f.picked[in.cursor] = !f.picked[in.cursor]
		}
	case "enter":
		if f.kind != many {
			f.pick(in.cursor)
		}
		s.judge()
		return s.next()
	default:
		in.cursor = f.starting(key, in.cursor)
	}
	if f.kind != many && !(untouched && len(key) == 1 && !f.picked[in.cursor] && f.starting(key, -1) < 0) {
		f.pick(in.cursor)
	}
	s.judge()
	return nil
}

// pick makes one option the answer.
func (f *field) pick(i int) {
	clear(f.picked)
	f.picked[i] = true
}

// starting is the next option after one that starts with a letter, or that one if there is none.
func (f *field) starting(letter string, after int) int {
	for i := range f.options {
		i = (after + 1 + i) % len(f.options)
		if first, _ := cutRune(f.options[i].label); strings.EqualFold(first, letter) {
			return i
		}
	}
	return after
}

func cutRune(s string) (first, rest string) {
	for i := range s {
		if i > 0 {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

func (s *screen) take(a action) tea.Cmd {
	switch {
	case a == change:
		s.reviewing = false
		s.decide()
		return s.attend()
	case a != accept || s.reviewing:
		return s.end(a)
	}
	first := -1
	for i, f := range s.fields {
		if s.wrong[i] = f.problem(); s.wrong[i] != "" && first < 0 {
			first = i
		}
	}
	switch {
	case first >= 0:
		s.focus = first
		return s.attend()
	case s.review:
		s.reviewing = true
		s.decide()
		return s.attend()
	}
	return s.end(accept)
}

// Drawing.

func (s *screen) View() tea.View {
	if s.over {
		return tea.NewView("")
	}
	head := s.wrap(bold.Render(s.server)+" "+s.asks, s.width-1)
	foot := s.wrap(faint.Render(s.help()), s.width-1)
	middle, from, to := s.middle()
	room := max(1, s.height-len(head)-len(foot)-2)

	if !s.scrolled {
		// All of what has the focus, and of what does not fit, its beginning.
		s.top = max(min(s.top, from), min(from, to-room))
	}
	s.top = max(0, min(s.top, len(middle)-room))
	end := min(len(middle), s.top+room)

	all := append(head, s.rule("↑", s.top))
	all = append(all, middle[s.top:end]...)
	all = append(all, s.rule("↓", len(middle)-end))
	return tea.NewView(strings.Join(append(all, foot...), "\n"))
}

// room is how many lines of the middle are in view.
func (s *screen) room() int {
	return max(1, s.height-4)
}

// rule is a line across, which says how much is out of view behind it.
func (s *screen) rule(arrow string, hidden int) string {
	if hidden == 0 {
		return faint.Render(strings.Repeat("─", s.width-1))
	}
	note := fmt.Sprintf("── %s %d more lines (page up, page down) ", arrow, hidden)
	return faint.Render(note + strings.Repeat("─", max(0, s.width-1-lipgloss.Width(note))))
}

func (s *screen) help() string {
	keys := "esc cancel"
	if s.onAction() {
		return "←→ choose · enter confirm · " + keys
	}
	keys = "tab, shift+tab move · " + keys
	switch f := s.fields[s.focus]; {
	case f.kind == many:
		return "↑↓ move · space tick · enter next · " + keys
	case f.isChoice():
		return "↑↓ choose · enter next · " + keys
	case f.kind == prose:
		return keys
	}
	return "enter next · " + keys
}

// middle is what scrolls, and the lines of it that belong in view.
func (s *screen) middle() (lines []string, from, to int) {
	add := func(gutter string, more []string) {
		for _, l := range more {
			lines = append(lines, gutter+l)
		}
	}
	blank := func() { lines = append(lines, "") }

	for _, b := range s.body {
		if b.kind != theirs || len(lines) == 0 {
			blank()
		}
		switch b.kind {
		case theirs:
			add(accent.Render("│ "), s.wrap(b.text, s.inner()))
		case heading:
			add("  ", s.wrap(bold.Render(b.text), s.inner()))
		case warning:
			for i, l := range s.wrap(b.text, s.inner()-2) {
				mark := "  "
				if i == 0 {
					mark = "! "
				}
				add("  ", []string{alarm.Render(mark + l)})
			}
		case address:
			add("  ", s.address(b))
		default:
			add("  ", s.wrap(b.text, s.inner()))
		}
	}
	blank()
	if s.reviewing {
		add("  ", s.wrap(bold.Render("This will be sent:"), s.inner()))
		blank()
		from = len(lines)
		add("  ", s.answers())
		blank()
	} else {
		for i := range s.fields {
			part, hot := s.field(i)
			if i == s.focus {
				from, to = len(lines), len(lines)+len(part)
				if to-from > s.room() { // only where the person stands
					from, to = from+hot, from+hot+1
				}
				add(accent.Render("┃ "), part)
			} else {
				add("  ", part)
			}
			blank()
		}
	}
	if s.onAction() {
		if !s.reviewing || len(lines)+1-from > s.room() {
			from = len(lines)
		}
		to = len(lines) + 1
	}
	var buttons []string
	for i, a := range s.actions {
		if len(s.fields)+i == s.focus {
			buttons = append(buttons, chosen.Render("▸ "+s.name(a)+" "))
		} else {
			buttons = append(buttons, "  "+s.name(a)+" ")
		}
	}
	add("  ", s.wrap(strings.Join(buttons, " "), s.inner()))
	return lines, from, max(to, len(lines)*btoi(s.onAction()))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// field is how a field is drawn, and the line of it at which the person stands.
func (s *screen) field(i int) (lines []string, hot int) {
	f, in, here := s.fields[i], s.inputs[i], i == s.focus
	about := []string{"optional"}
	if f.required {
		about[0] = "required"
	}
	if f.want != "" {
		about = append(about, f.want)
	}
	label := bold.Render(f.label)
	if f.kind != prose {
		label += faint.Render(" · " + strings.Join(about, " · "))
	}
	lines = s.wrap(label, s.inner())
	if f.about != "" {
		lines = append(lines, s.wrap(f.about, s.inner())...)
	}
	hot = len(lines)
	switch {
	case f.isChoice():
		for j, o := range f.options {
			cursor, box := "  ", "( ) "
			if f.kind == many {
				box = "[ ] "
			}
			if f.picked[j] {
				box = strings.Replace(strings.Replace(box, "( )", "(•)", 1), "[ ]", "[x]", 1)
			}
			if here && j == in.cursor {
				cursor, hot = "▸ ", len(lines)
			}
			for k, l := range s.wrap(o.label, s.inner()-6) {
				if k > 0 {
					cursor, box = "  ", "    "
				}
				if here && j == in.cursor {
					cursor, l = accent.Render(cursor), accent.Render(l)
				}
				lines = append(lines, cursor+box+l)
			}
		}
	case f.kind == prose:
		lines = append(lines, strings.Split(in.area.View(), "\n")...)
	default:
		lines = append(lines, in.line.View())
	}
	if s.wrong[i] != "" {
		for j, l := range s.wrap(s.wrong[i], s.inner()-2) {
			mark := "  "
			if j == 0 {
				mark = "✗ "
			}
			lines = append(lines, wrong.Render(mark+l))
		}
	}
	return lines, hot
}

// answers are what will be sent, as two columns.
func (s *screen) answers() []string {
	column := 0
	for _, f := range s.fields {
		column = max(column, min(lipgloss.Width(f.label), s.inner()/3))
	}
	var all []string
	for _, f := range s.fields {
		var values []string
		for _, a := range f.answer() {
			values = append(values, s.wrap(a, s.inner()-column-2)...)
		}
		labels := s.wrap(f.label, column)
		for i := range max(len(labels), len(values)) {
			label, value := "", ""
			if i < len(labels) {
				label = labels[i]
			}
			if i < len(values) {
				value = values[i]
			}
			gap := strings.Repeat(" ", column-lipgloss.Width(label)+2)
			all = append(all, faint.Render(label)+gap+value)
		}
	}
	return all
}

// address is an address with its host standing out. It is cut into lines anywhere, and nothing is added to it.
func (s *screen) address(b block) []string {
	var lines []string
	for start := 0; start < len(b.text); start += s.inner() {
		end := min(len(b.text), start+s.inner())
		from, to := min(max(b.mark[0], start), end), min(max(b.mark[1], start), end)
		lines = append(lines, b.text[start:from]+host.Render(b.text[from:to])+b.text[to:end])
	}
	return lines
}

// wrap breaks text at spaces, and words that are too long wherever it must.
func (s *screen) wrap(text string, width int) []string {
	return strings.Split(lipgloss.Wrap(text, max(1, width), ""), "\n")
}

var _ = unicode.IsSpace
