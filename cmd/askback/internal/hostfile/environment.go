package hostfile

import (
	"runtime"
	"strings"
)

// inherited are the variables that a program gets besides its own, as from most hosts.
func inherited() []string {
	if runtime.GOOS == "windows" {
		return []string{"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
			"PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"}
	}
	return []string{"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"}
}

// Environment returns what a program of the file inherits, as NAME=value: the places of things, and no secrets.
func Environment(lookup func(string) (string, bool)) (env []string) {
	for _, name := range inherited() {
		if value, set := lookup(name); set && !strings.HasPrefix(value, "()") { // a function of the shell
			env = append(env, name+"="+value)
		}
	}
	return env
}
