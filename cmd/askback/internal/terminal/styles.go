package terminal

import "charm.land/lipgloss/v2"

// The styles use only the sixteen colours of the terminal, which suit any background.
var (
	bold   = lipgloss.NewStyle().Bold(true)
	faint  = lipgloss.NewStyle().Faint(true)
	accent = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	wrong  = lipgloss.NewStyle().Foreground(lipgloss.Red)
	alarm  = lipgloss.NewStyle().Foreground(lipgloss.Yellow).Bold(true)
	fine   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	chosen = lipgloss.NewStyle().Bold(true).Reverse(true)
	host   = lipgloss.NewStyle().Bold(true).Underline(true)
)
