package sim

import "slices"

// Shrink returns as few of the events as it finds with which a run still fails. It leaves out half of them at once,
// then a quarter, and in the end each alone.
func Shrink(events []Event, fails func(only []Event) bool) []Event {
	for size := (len(events) + 1) / 2; size > 0; size /= 2 {
		for i := 0; i < len(events); {
			fewer := slices.Delete(slices.Clone(events), i, min(i+size, len(events)))
			if fails(fewer) {
				events = fewer
			} else {
				i += size
			}
		}
	}
	return events
}

// Story tells, a line each, the few events with which a run still fails, as far as a hundred runs find them.
func Story(events []Event, fails func(only []Event) bool) (text string) {
	runs := 0
	few := Shrink(events, func(only []Event) bool {
		runs++
		return runs <= 100 && fails(only)
	})
	for _, e := range few {
		text += e.String() + "\n"
	}
	return text
}
