// Package ptytest opens pseudo-terminals for tests.
package ptytest

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Open returns the two ends of a new terminal: what a person has before them, and what a program has open.
//
// The well-known packages for this hold the address of a variable on the stack as an integer across calls. When the
// stack moves in between, they open terminal 0, which is somebody else's.
func Open(t testing.TB, rows, columns int) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var number int
	control(t, person, func(fd int) error {
		var err error
		if number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); err != nil {
			return err
		}
		return unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	})
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	Resize(t, program, rows, columns)
	return person, program
}

// Resize gives a terminal another size.
func Resize(t testing.TB, program *os.File, rows, columns int) {
	t.Helper()
	control(t, program, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)})
	})
}

// control leaves the file as it is, where Fd would make its reads block and its Close wait for them.
func control(t testing.TB, file *os.File, f func(fd int) error) {
	t.Helper()
	conn, err := file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	failed := conn.Control(func(fd uintptr) { err = f(int(fd)) })
	if failed != nil || err != nil {
		t.Fatal(failed, err)
	}
}
