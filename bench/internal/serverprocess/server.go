// Package serverprocess starts servers, loads them with redis-benchmark, and reads what they use.
//
// It answers one question for all comparisons of servers: what did this process do for so many requests, and
// what did it cost? Servers run on the processors that they are given, and so does the benchmark, where the
// system has taskset. It does not compare: package duel does.
package serverprocess

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// token is that of operators of the servers that are started here, which live for seconds.
const token = "bench-token-of-a-server"

// ProfiledEnv and ProfiledArgs let our server serve profiles at an address: see [Profile].
var ProfiledEnv = []string{"CLEAVE_HTTP_TOKEN=" + token}

// ProfiledArgs are the arguments that go with ProfiledEnv.
func ProfiledArgs(address string) []string {
	return []string{"--http-addr", address, "--http-pprof", "yes"}
}

// Options say what is started.
type Options struct {
	// Name is for messages and the name of the folder.
	Name string
	// Path is the binary, and Args its arguments, given a free port and a folder of its own.
	Path string
	Args func(port, dir string) []string
	// Dir is where that folder is made.
	Dir string
	// Cores are the processors that the server may use, all if it is empty.
	Cores []int
	// Env are variables of its environment, beside our own.
	Env []string
}

// Server is a process that serves.
type Server struct {
	Name, Path, Port, Dir string
	cmd                   *exec.Cmd
}

// Launch starts a server and waits until it takes connections. If that fails after the process has started, the
// server is returned too, to be stopped.
func Launch(o Options) (*Server, error) {
	dir, err := os.MkdirTemp(o.Dir, "server-"+o.Name)
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	cmd := pin(o.Cores, o.Path, o.Args(port, dir)...)
	cmd.Env = append(append(os.Environ(), "XDG_CACHE_HOME="+dir), o.Env...)
	if len(o.Cores) > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprint("GOMAXPROCS=", len(o.Cores)))
	}
	s := &Server{Name: o.Name, Path: o.Path, Port: port, Dir: dir, cmd: cmd}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for range 500 {
		if c, err := net.Dial("tcp", s.address()); err == nil {
			return s, c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return s, fmt.Errorf("%s does not answer", o.Name)
}

func (s *Server) address() string { return "127.0.0.1:" + s.Port }

// Stop ends the server and removes its files. It does nothing for nil.
func (s *Server) Stop() {
	if s == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.Dir)
}

// FreePort returns a port that nobody listens on.
func FreePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// built is our server, once it is built.
var built struct {
	sync.Mutex
	path string
}

// Build builds our server from a module, once, and returns where it is.
func Build(dir, module string) (string, error) {
	built.Lock()
	defer built.Unlock()
	if built.path != "" {
		return built.path, nil
	}
	path := filepath.Join(dir, fmt.Sprint("cleave-bench-server-", os.Getpid()))
	out, err := exec.Command("go", "build", "-C", module, "-o", path, "./cmd/cleave").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the server: %w: %s", err, out)
	}
	built.path = path
	return path, nil
}

// Forget removes what Build has built.
func Forget() {
	built.Lock()
	defer built.Unlock()
	_ = os.Remove(built.path)
	built.path = ""
}
