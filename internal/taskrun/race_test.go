//go:build race

package taskrun_test

func init() { raceDetector = true }
