//go:build unix

package pgtest

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Server is a PostgreSQL with a cluster of its own. It listens on a port of 127.0.0.1.
// Its methods are for one goroutine.
type Server struct {
	dir      string
	port     int
	password string

	commands io.Writer
	answers  *bufio.Reader
	close    func() // ends the server and removes its files
}

// supervise runs the server of the directory $1 with the command that follows. It reads its
// orders from this process, whose end, however it comes about, ends its input.
const supervise = `
dir=$1; shift
pid=
stop() {
	[ -n "$pid" ] || return
	kill -QUIT $pid
	wait $pid
	pid=
}
while read -r order port; do
	case $order in
	start) "$@" -p "$port" >>"$dir/log" 2>&1 & pid=$! ;;
	stop) stop ;;
	esac
	echo done
done
stop
rm -rf "$dir"
`

// start makes a cluster and runs its server: a new one, or a standby of primary if that is not nil.
func start(fsync bool, primary *Server) (_ *Server, err error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	owner, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	s := &Server{dir: dir, password: rand.Text(), close: func() { os.RemoveAll(dir) }}
	if primary != nil {
		s.password = primary.password
	}
	if err := s.run(bin, owner, fsync, primary); err != nil {
		s.close()
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	return s, nil
}

// run makes the cluster in the server's directory and runs the programs of the directory bin.
func (s *Server) run(bin string, owner *syscall.Credential, fsync bool, primary *Server) error {
	dir, secret := s.dir, filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(s.password), 0o600); err != nil {
		return err
	}
	if err := give(owner, dir, secret); err != nil {
		return err
	}
	cluster := filepath.Join(dir, "cluster")
	create := command(owner, dir, filepath.Join(bin, "initdb"), "--pgdata="+cluster, "--username=postgres",
		"--auth=scram-sha-256", "--pwfile="+secret, "--encoding=UTF8", "--locale=C", "--no-sync")
	if primary != nil {
		create = command(owner, dir, filepath.Join(bin, "pg_basebackup"), "--pgdata="+cluster, "--dbname="+primary.DSN(),
			"--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--no-password")
	}
	if out, err := create.CombinedOutput(); err != nil {
		return fmt.Errorf("make a cluster: %w\n%s", err, out)
	}

	supervisor := command(owner, dir, "/bin/sh", "-c", supervise, "sh", dir,
		filepath.Join(bin, "postgres"), "-D", cluster, "-k", "", "-c", "listen_addresses=127.0.0.1",
		"-c", "max_connections=400", "-c", "fsync="+strconv.FormatBool(fsync))
	orders, err1 := supervisor.StdinPipe()
	answers, err2 := supervisor.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := supervisor.Start(); err != nil {
		return err
	}
	s.commands, s.answers = orders, bufio.NewReader(answers)
	s.close = sync.OnceFunc(func() {
		orders.Close()
		supervisor.Wait()
	})

	// Somebody else may take a port that was free: then PostgreSQL ends, and another may do.
	var err error
	for range 3 {
		if s.port, err = freePort(); err != nil {
			return err
		}
		if err = s.Restart(); err == nil {
			return nil
		}
	}
	return err
}

// give gives files to the user that a server runs as, if that is another one.
func give(owner *syscall.Credential, paths ...string) (err error) {
	for _, path := range paths {
		if owner != nil && err == nil {
			err = os.Chown(path, int(owner.Uid), int(owner.Gid))
		}
	}
	return err
}

// command returns a program that runs in a directory as this user.
func command(owner *syscall.Credential, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	// With a group of its own it does not take an interrupt that is for the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner, Setpgid: true}
	return cmd
}

// accepts waits until a server accepts connections, for a minute at most, or less if it gives up.
func accepts(dsn string, givesUp func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, dsn)
		if err == nil {
			return conn.Close(ctx)
		}
		if ctx.Err() != nil || givesUp() {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// DSN returns the URL of a database of this server. A restart does not change it.
func (s *Server) DSN() string {
	return (&url.URL{
		Scheme: "postgres",
		User:   url.UserPassword("postgres", s.password),
		Host:   net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:   "/postgres",
	}).String()
}

// Stop ends the server as a crash does, if it runs: its connections break off.
func (s *Server) Stop() error { return s.tell("stop") }

// Restart starts the server again, on the same port with the same databases, after a
// crash if it runs. It returns when the server accepts connections.
func (s *Server) Restart() error {
	if err := s.Stop(); err != nil {
		return err
	}
	if err := s.tell("start " + strconv.Itoa(s.port)); err != nil {
		return err
	}
	var log []byte
	err := accepts(s.DSN(), func() bool {
		log, _ = os.ReadFile(filepath.Join(s.dir, "log"))
		return strings.Contains(string(log), "could not create any TCP/IP sockets")
	})
	if err != nil {
		return fmt.Errorf("the server does not start: %w\n%s", err, log)
	}
	return nil
}

func (s *Server) tell(order string) error {
	if _, err := fmt.Fprintln(s.commands, order); err != nil {
		return fmt.Errorf("%s the server: %w", order, err)
	}
	if _, err := s.answers.ReadString('\n'); err != nil {
		return fmt.Errorf("%s the server: %w", order, err)
	}
	return nil
}

// distribution is where Debian and Ubuntu put the programs, outside of PATH.
var distribution = "/usr/lib/postgresql/*/bin"

// binaries returns the directory of the newest server's programs.
func binaries() (string, error) {
	var dirs []string
	if path, err := exec.LookPath("initdb"); err == nil {
		// The entry may be a link to where the others are.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	debian, _ := filepath.Glob(distribution)
	slices.SortFunc(debian, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range append(dirs, debian...) {
		_, err1 := exec.LookPath(filepath.Join(dir, "initdb"))
		_, err2 := exec.LookPath(filepath.Join(dir, "postgres"))
		if err1 == nil && err2 == nil {
			return dir, nil
		}
	}
	return "", &missingError{"this machine has no PostgreSQL server (looked in PATH, pg_config --bindir and " +
		"/usr/lib/postgresql)"}
}

// version returns the version in a path such as /usr/lib/postgresql/15/bin.
func version(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

// unprivileged returns the user that the server runs as: nil is this process's. PostgreSQL refuses to run as root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, &missingError{"PostgreSQL does not run as root, and this machine has no user postgres and no user nobody"}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
