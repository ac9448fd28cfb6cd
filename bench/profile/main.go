// Command profile records where the server spends its time, for the compiler: go build
// inlines along cmd/cleave/default.pgo. Run it in bench/ when much has changed, as
//
//	go run ./profile -out ../cmd/cleave/default.pgo
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// loads are what the server is trained for. Each is one of redis-benchmark's, on a server
// with some flags.
var loads = []struct {
	flags []string
	test  string
	depth string // of the pipeline
	time  time.Duration
}{
	{[]string{"--appendfsync", "everysec"}, "set", "64", 10 * time.Second},
	{[]string{"--appendfsync", "everysec"}, "get", "64", 6 * time.Second},
	{[]string{"--appendfsync", "everysec"}, "set", "1", 4 * time.Second},
	{[]string{"--appendfsync", "everysec"}, "get", "1", 4 * time.Second},
	{[]string{"--appendfsync", "everysec"}, "incr", "16", 4 * time.Second},
	{[]string{"--appendfsync", "everysec"}, "hset", "16", 3 * time.Second},
	{[]string{"--appendfsync", "everysec"}, "mset", "16", 3 * time.Second},
	{[]string{"--appendfsync", "always"}, "set", "16", 4 * time.Second},
	{[]string{"--storage", "memory"}, "set", "64", 6 * time.Second},
	{[]string{"--cache-mib", "12"}, "get", "16", 6 * time.Second},
	{[]string{"--cache-mib", "12"}, "get", "1", 4 * time.Second},
}

func main() {
	out := flag.String("out", "", "the file to write")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	if out == "" {
		return errors.New("-out is empty: name the file to write, such as ../cmd/cleave/default.pgo")
	}
	dir, err := os.MkdirTemp("", "cleave-profile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Without the paths of this machine, and without what was recorded before.
	binary := filepath.Join(dir, "cleave")
	if text, err := exec.Command("go", "build", "-C", "..", "-trimpath", "-pgo=off", "-o", binary, "./cmd/cleave").CombinedOutput(); err != nil {
		return fmt.Errorf("build the server: %w: %s", err, text)
	}
	var all []*profile.Profile
	for i, l := range loads {
		fmt.Fprintf(os.Stderr, "%s with a pipeline of %s, %s\n", l.test, l.depth, strings.Join(l.flags, " "))
		p, err := record(binary, filepath.Join(dir, fmt.Sprint(i)), l.flags, l.test, l.depth, l.time)
		if err != nil {
			return fmt.Errorf("%s: %w", l.test, err)
		}
		all = append(all, p)
	}
	merged, err := profile.Merge(all)
	if err != nil {
		return err
	}
	for _, m := range merged.Mapping {
		m.File = "cleave"
	}
	var text bytes.Buffer
	if err := merged.Write(&text); err != nil {
		return err
	}
	return os.WriteFile(out, text.Bytes(), 0o644)
}

const (
	// keys is how many there are.
	keys = 1_000_000
	// token is of a server that lives for seconds.
	token = "profile-of-the-server"
)

// record starts a server, fills it, and returns where it spends its time under a load.
func record(binary, data string, flags []string, test, depth string, d time.Duration) (*profile.Profile, error) {
	resp, err := freeAddr()
	if err != nil {
		return nil, err
	}
	web, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(resp)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	server := exec.CommandContext(ctx, binary, append([]string{"serve", "--data", data, "--resp-addr", resp, "--http-addr", web, "--http-pprof", "yes"}, flags...)...)
	server.Env = append(os.Environ(), "XDG_CACHE_HOME="+data, "CLEAVE_HTTP_TOKEN="+token)
	server.Stderr = os.Stderr
	ready, err := server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	defer func() {
		stop()
		_ = server.Wait() // it was killed
	}()
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("the server did not start: %w", err)
	}
	load := func(ctx context.Context, test, depth string, requests int) *exec.Cmd {
		return exec.CommandContext(ctx, "redis-benchmark", "-p", port, "-q", "-d", "64", "-c", "50", "-r", fmt.Sprint(keys), "-t", test, "-P", depth, "-n", fmt.Sprint(requests))
	}
	if text, err := load(ctx, "set", "64", 2*keys).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("fill the server: %w: %s", err, text)
	}
	under, end := context.WithCancel(ctx)
	clients := load(under, test, depth, 1<<30)
	if err := clients.Start(); err != nil {
		end()
		return nil, err
	}
	defer func() {
		end()
		_ = clients.Wait() // they were killed
	}()
	time.Sleep(200 * time.Millisecond) // until they are connected
	return fetch(ctx, web, d)
}

// fetch asks a server for a profile of the time to come.
func fetch(ctx context.Context, addr string, d time.Duration) (*profile.Profile, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", addr, int(d.Seconds())), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(reply.Body, 1<<10)) // as far as it is said
		return nil, fmt.Errorf("%s: %s", reply.Status, text)
	}
	return profile.Parse(reply.Body)
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
