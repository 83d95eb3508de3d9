package call

import "time"

// Desk has the meaning of askback.DeskOptions.
type Desk struct {
	Fallback bool
	NotShown time.Duration
}
