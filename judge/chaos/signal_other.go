//go:build !unix

package main

import "os"

// There are no such signals on this system.
var stopSignal, continueSignal os.Signal
