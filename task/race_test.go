//go:build race

package task_test

func init() { raceDetector = true }
