package askback

import "github.com/askback-mcp/askback/internal/httpfront"

func init() { httpfront.Poison = true }

// Defaults returns the limits of a Server that sets none.
func Defaults() (Limits, error) {
	var l Limits
	err := l.setDefaults()
	return l, err
}

// StandIns tells tests how many sessions stand in for those that clients do not have.
func StandIns(s *Server) int { return s.inline().Open() }
