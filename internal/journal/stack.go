package journal

import (
	"reflect"
	"runtime"
)

// Frame is a function that can be looked for on the stack of a goroutine.
type Frame struct{ function string }

// FrameOf returns the Frame of a function that is not a closure.
func FrameOf(function any) Frame {
	return Frame{runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name()}
}

// OnStack reports whether this goroutine has called the function and has not returned from it yet.
func (f Frame) OnStack() bool {
	stack := make([]uintptr, 64)
	n := runtime.Callers(1, stack)
	for n == len(stack) {
		stack = make([]uintptr, 2*n)
		n = runtime.Callers(1, stack)
	}
	frames := runtime.CallersFrames(stack[:n])
	for {
		frame, more := frames.Next()
		if frame.Function == f.function {
			return true
		}
		if !more {
			return false
		}
	}
}
