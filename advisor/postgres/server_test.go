//go:build unix

package postgres

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// server is a PostgreSQL that the tests of the package share.
var server struct {
	socket string // its folder
	reason string // why there is none
}

func TestMain(m *testing.M) {
	stop := startServer()
	code := m.Run()
	stop()
	os.Exit(code)
}

// startServer starts a PostgreSQL in a folder of its own, reached by a Unix socket alone.
func startServer() (stop func()) {
	bin := findServer()
	if bin == "" {
		server.reason = "PostgreSQL is not installed (Debian: postgresql)"
		return func() {}
	}
	dir, err := os.MkdirTemp("", "cleave-postgres-")
	if err != nil {
		server.reason = err.Error()
		return func() {}
	}
	remove := func() { os.RemoveAll(dir) }
	owner, err := chooseOwner(dir)
	if err != nil {
		server.reason = err.Error()
		return remove
	}
	data := filepath.Join(dir, "data")
	run := func(name string, args ...string) error {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: owner}
		cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, out)
		}
		return nil
	}
	if err := run("initdb", "-D", data, "-U", "owner", "--auth=trust", "-E", "UTF8", "--no-sync"); err != nil {
		server.reason = err.Error()
		return remove
	}
	options := fmt.Sprintf("-c listen_addresses='' -c unix_socket_directories='%s' -c fsync=off -c shared_preload_libraries=pg_stat_statements", dir)
	if err := run("pg_ctl", "-D", data, "-w", "-t", "60", "-l", filepath.Join(dir, "log"), "-o", options, "start"); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		server.reason = fmt.Sprintf("%v: %s", err, log)
		return remove
	}
	server.socket = dir
	return func() {
		if err := run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop"); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		remove()
	}
}

// findServer returns the folder of the server's programs.
func findServer() string {
	if path, err := exec.LookPath("pg_ctl"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

// chooseOwner returns who runs the server, which refuses to be run by root.
func chooseOwner(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.Atoi(u.Gid)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
	}
	return nil, fmt.Errorf("PostgreSQL is not run by root, and there is no user postgres")
}

// newDatabase makes a database and executes statements in it. It returns how to connect.
func newDatabase(t *testing.T, statements ...string) string {
	t.Helper()
	if server.socket == "" {
		if os.Getenv("CLEAVE_NEED_POSTGRES") != "" {
			t.Fatal(server.reason)
		}
		t.Skip(server.reason)
	}
	name := strings.ToLower(strings.NewReplacer("/", "_", " ", "_").Replace(t.Name()))
	name = name[:min(len(name), 60)]
	connect := func(database string, statements ...string) {
		conn, err := pgx.Connect(t.Context(), connectionOf(database, "owner"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		for _, s := range statements {
			if _, err := conn.Exec(t.Context(), s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
	}
	connect("postgres", "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	connect(name, statements...)
	return connectionOf(name, "owner")
}

func connectionOf(database, user string) string {
	return fmt.Sprintf("host=%s dbname=%s user=%s", server.socket, database, user)
}
