//go:build !unix

package checkclient

import "os/exec"

func crashOf(*exec.ExitError) string { return "" }
