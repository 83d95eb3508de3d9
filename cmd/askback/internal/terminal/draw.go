package terminal

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

// View draws who asks, a part that scrolls, and the keys. It implements [tea.Model].
func (s *screen) View() tea.View {
	if s.over {
		return tea.NewView("")
	}
	head := wrap(bold.Render(s.server)+" "+s.asks, s.width-1)
	foot := wrap(faint.Render(s.help()), s.width-1)
	s.room = max(1, s.height-len(head)-len(foot)-2)
	middle, from, to := s.middle()

	if !s.scrolled {
		// Show all of the part with the focus, or its beginning if it does not fit.
		s.top = max(min(s.top, from), min(from, to-s.room))
	}
	s.top = max(0, min(s.top, len(middle)-s.room))
	end := min(len(middle), s.top+s.room)

	all := append(head, rule(s.width-1, "↑", s.top))
	all = append(all, middle[s.top:end]...)
	all = append(all, rule(s.width-1, "↓", len(middle)-end))
	return tea.NewView(strings.Join(append(all, foot...), "\n"))
}

// rule draws a line across. It tells how many lines are out of view behind it.
func rule(width int, arrow string, hidden int) string {
	if hidden == 0 {
		return faint.Render(strings.Repeat("─", width))
	}
	lines := "lines"
	if hidden == 1 {
		lines = "line"
	}
	note := fmt.Sprintf("── %s %d more %s (page up, page down) ", arrow, hidden, lines)
	return faint.Render(note + strings.Repeat("─", max(0, width-lipgloss.Width(note))))
}

func (s *screen) help() string {
	keys := "esc leave"
	switch {
	case s.leaving:
		keys = "esc go back"
	case s.losesNothing():
		keys = "esc cancel"
	}
	if s.onAction() {
		keys = "←→ choose · enter confirm · " + keys
		if meaning := meanings[s.actions[s.focus-len(s.fields)]]; meaning != "" {
			keys = meaning + " · " + keys
		}
		return keys
	}
	keys = "tab, shift+tab move · " + keys
	enter := "enter next · "
	if s.focus == len(s.fields)-1 {
		enter = "enter " + strings.ToLower(s.name(accept)) + " · "
	}
	f := s.fields[s.focus]
	if f.isLong() {
		enter = "type to filter · " + enter
	}
	switch {
	case f.kind == many:
		return "↑↓ move · space tick · " + enter + keys
	case f.isChoice():
		return "↑↓ choose · " + enter + keys
	case f.kind == prose:
		return "enter new line · " + keys
	}
	return enter + keys
}

// middle draws the part that scrolls. The lines with the focus are those from from up to to.
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
		add("", b.draw(s.inner()))
	}
	blank()
	switch {
	case s.leaving:
		from = len(lines)
		add("  ", wrap(bold.Render("Leave without an answer?"), s.inner()))
		if s.filled() {
			add("  ", wrap("What you have filled in is lost.", s.inner()))
		}
		for _, way := range s.ways() {
			add("  ", wrap(strings.ToUpper(meanings[way][:1])+meanings[way][1:]+".", s.inner()))
		}
		blank()
	case s.reviewing:
		add("  ", wrap(bold.Render("This will be sent:"), s.inner()))
		blank()
		from = len(lines)
		add("  ", answers(s.fields, s.inner()))
		blank()
	default:
		for i := range s.fields {
			part, hot := s.field(i)
			if i == s.focus {
				from, to = len(lines), len(lines)+len(part)
				if to-from > s.room { // only the line at the cursor
					from, to = from+hot, from+hot+1
				}
				add(accent.Render("┃ "), part)
			} else {
				add("  ", part)
			}
			blank()
		}
	}
	if s.onAction() && (!s.reviewing && !s.leaving || len(lines)+1-from > s.room) {
		from = len(lines)
	}
	var buttons []string
	for i, a := range s.actions {
		if len(s.fields)+i == s.focus {
			buttons = append(buttons, chosen.Render("▸ "+s.name(a)+" "))
		} else {
			buttons = append(buttons, "  "+s.name(a)+" ")
		}
	}
	add("  ", wrap(strings.Join(buttons, " "), s.inner()))
	if s.onAction() {
		to = len(lines)
	}
	return lines, from, to
}

// draw draws one part of the body.
func (b block) draw(width int) []string {
	switch b.kind {
	case theirs:
		lines := wrap(b.text, width)
		for i, l := range lines {
			lines[i] = accent.Render("│ ") + l
		}
		return lines
	case heading:
		return indent(wrap(bold.Render(b.text), width))
	case warning:
		return indent(withMark("! ", b.text, width, alarm))
	case address:
		return indent(b.address(width))
	}
	return indent(wrap(b.text, width))
}

// record draws what was asked and answered, which stays on the terminal.
func (s *screen) record() string {
	all := wrap(bold.Render(s.server)+" "+s.asks, s.width-1)
	for _, b := range s.body {
		all = append(all, b.draw(s.inner())...)
	}
	mark, style := "✗ ", wrong
	switch s.result {
	case accept:
		mark, style = "✓ ", fine
		all = append(all, indent(answers(s.fields, s.inner()))...)
	case later:
		mark, style = "… ", accent
	}
	return strings.Join(append(all, withMark(mark, s.outcome(s.result), s.width-1, style)...), "\n")
}

// field draws a field. Hot is the line at the cursor.
func (s *screen) field(i int) (lines []string, hot int) {
	f, in, here := s.fields[i], s.inputs[i], i == s.focus
	label := bold.Render(f.label)
	if f.kind != prose {
		label += faint.Render(" · " + strings.Join(f.terms(), " · "))
	}
	lines = wrap(label, s.inner())
	if f.about != "" {
		lines = append(lines, wrap(f.about, s.inner())...)
	}
	if f.warning != "" {
		lines = append(lines, withMark("! ", f.warning, s.inner(), alarm)...)
	}
	hot = len(lines)
	if in.editor != nil && (here || !f.isChoice()) {
		lines = append(lines, strings.Split(in.editor.View(), "\n")...)
	}
	boxes := map[bool]string{false: "( ) ", true: "(•) "}
	if f.kind == many {
		boxes = map[bool]string{false: "[ ] ", true: "[x] "}
	}
	shown, note := f.inView(in.cursor, here)
	for _, j := range shown {
		cursor, style := "  ", lipgloss.NewStyle()
		if here && j == in.cursor {
			cursor, style, hot = "▸ ", accent, len(lines)
		}
		lines = append(lines, withMark(cursor+boxes[f.picked[j]], f.options[j].label, s.inner(), style)...)
	}
	if note != "" {
		lines = append(lines, indent(wrap(faint.Render(note), s.inner()-2))...)
	}
	if s.wrong[i] != "" {
		lines = append(lines, withMark("✗ ", s.wrong[i], s.inner(), wrong)...)
	}
	return lines, hot
}

// inView returns the options to draw, and a note about a long list: of such a list those around the cursor, out of
// those that the filter finds, or only the answer where the person is in another field.
func (f *field) inView(cursor int, here bool) (shown []int, note string) {
	if !f.isLong() {
		return f.matching(""), ""
	}
	if !here {
		for i := range f.options {
			if f.picked[i] {
				shown = append(shown, i)
			}
		}
		return shown, fmt.Sprintf("%d choices", len(f.options))
	}
	found := f.matching(f.filter)
	top := max(0, min(slices.Index(found, cursor)-listRows/2, len(found)-listRows))
	shown = found[top:min(len(found), top+listRows)]
	note = fmt.Sprintf("%d of %d choices", len(found), len(f.options))
	if f.filter == "" {
		note = fmt.Sprintf("%d choices: type to filter them", len(f.options))
	}
	if picks := f.picks(); f.kind == many && picks != nil { // they may be out of view
		note += " · ticked: " + strings.Join(picks, ", ")
	}
	return shown, note
}

// answers draws what will be sent, in two columns.
func answers(fields []*field, width int) []string {
	column := 0
	for _, f := range fields {
		column = max(column, min(lipgloss.Width(f.label), width/3))
	}
	var all []string
	for _, f := range fields {
		label := faint.Width(column + 2).Render(lipgloss.Wrap(f.label, column, ""))
		value := lipgloss.Wrap(strings.Join(f.answer(), "\n"), width-column-2, "")
		all = append(all, strings.Split(lipgloss.JoinHorizontal(lipgloss.Top, label, value), "\n")...)
	}
	return all
}

// address draws an address with its host emphasized. It is cut into lines at any place, and nothing is added to it.
func (b block) address(width int) []string {
	var lines []string
	for start := 0; start < len(b.text); start += width {
		end := min(len(b.text), start+width)
		from, to := min(max(b.mark[0], start), end), min(max(b.mark[1], start), end)
		lines = append(lines, b.text[start:from]+host.Render(b.text[from:to])+b.text[to:end])
	}
	return lines
}

func indent(lines []string) []string {
	for i, l := range lines {
		lines[i] = "  " + l
	}
	return lines
}

// withMark draws text of this package behind a mark.
func withMark(mark, text string, width int, style lipgloss.Style) []string {
	lines := wrap(text, width-lipgloss.Width(mark))
	for i, l := range lines {
		lines[i] = style.Render(mark + l)
		mark = strings.Repeat(" ", lipgloss.Width(mark))
	}
	return lines
}

// wrap breaks text at spaces, and a word that is too long at any place.
func wrap(text string, width int) []string {
	return strings.Split(lipgloss.Wrap(text, max(1, width), ""), "\n")
}
