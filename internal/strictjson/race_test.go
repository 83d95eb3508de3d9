//go:build race

package strictjson

func init() { raceDetector = true }
