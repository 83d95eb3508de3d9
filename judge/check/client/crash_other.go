//go:build !unix

package main

import "os/exec"

func crashOf(*exec.ExitError) string { return "" }
