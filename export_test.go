package askback

import "github.com/askback-mcp/askback/internal/httpfront"

func init() { httpfront.Poison = true }

// StandIns tells tests how many sessions stand in for those that clients do not have.
func StandIns(s *Server) int { return s.inline().Open() }
