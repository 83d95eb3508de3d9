//go:build unix

package pgtest

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Pooler starts a PgBouncer in front of the database with this URL, in one of its modes (session, transaction,
// statement), and returns the URL of the database behind it. It ends with the test. Without a PgBouncer on this machine
// the test is skipped or fails, by the same rule as without PostgreSQL.
func Pooler(t testing.TB, dsn, mode string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		check(t, &missingError{"this machine has no PgBouncer (apt-get install pgbouncer)"})
	}
	owner, err := unprivileged() // PgBouncer refuses to run as root
	check(t, err)
	dir, err := os.MkdirTemp("", "pgtest")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("pgtest: the database has no URL")
	}
	port, err := freePort()
	check(t, err)
	password, _ := u.User.Password()
	config := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
`, u.Hostname(), u.Port(), u.User.Username(), password, port, mode)
	file := filepath.Join(dir, "pgbouncer.ini")
	check(t, os.WriteFile(file, []byte(config), 0o600))
	check(t, give(owner, dir, file))
	// It ends when the shell's input does, however this process ends.
	cmd := command(owner, dir, "/bin/sh", "-c", `"$@" & cat >/dev/null; kill -INT $!; wait`, "sh", program, "-q", file)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	input, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	end := func() {
		input.Close()
		cmd.Wait()
	}
	t.Cleanup(end)

	u.Host = fmt.Sprintf("127.0.0.1:%d", port)
	if err := accepts(u.String(), func() bool { return false }); err != nil {
		end()
		t.Fatalf("pgtest: PgBouncer does not answer: %v\n%s", err, &out)
	}
	return u.String()
}
