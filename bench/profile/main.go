// Command profile records where the server spends its time, for the compiler: go build
// inlines along cmd/cleave/default.pgo. Run it in bench/ when much has changed, as
//
//	go run ./profile -out ../cmd/cleave/default.pgo
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// load is one of redis-benchmark's, on a server with some flags.
type load struct {
	flags       []string
	test, depth string // depth is that of the pipeline
	time        time.Duration
}

// loads are what the server is trained for.
var loads = []load{
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) error {
	if out == "" {
		return errors.New("-out is empty: name the file to write, such as ../cmd/cleave/default.pgo")
	}
	if _, err := exec.LookPath("redis-benchmark"); err != nil {
		return errors.New("there is no redis-benchmark: install it, as make profile does")
	}
	dir, err := os.MkdirTemp("", "cleave-profile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Without the paths of this machine, and without what was recorded before.
	binary := filepath.Join(dir, "cleave")
	if text, err := exec.CommandContext(ctx, "go", "build", "-C", "..", "-trimpath", "-pgo=off", "-o", binary, "./cmd/cleave").CombinedOutput(); err != nil {
		return fmt.Errorf("build the server, in bench/: %w: %s", err, text)
	}
	var all []*profile.Profile
	for i, l := range loads {
		fmt.Fprintf(os.Stderr, "%s with a pipeline of %s, %s\n", l.test, l.depth, strings.Join(l.flags, " "))
		p, err := l.record(ctx, binary, filepath.Join(dir, fmt.Sprint(i)))
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

// ready is what the server says when it is: the port for clients, and where operators are.
var ready = regexp.MustCompile(`redis-cli -p (\d+) .*(http://[^ )]+)`)

// record starts a server, fills it, and returns where it spends its time under the load.
func (l load) record(ctx context.Context, binary, data string) (*profile.Profile, error) {
	ctx, stop := context.WithCancel(ctx)
	server := exec.CommandContext(ctx, binary, append([]string{"serve", "--data", data, "--resp-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--http-pprof", "yes"}, l.flags...)...)
	server.Env = append(os.Environ(), "XDG_CACHE_HOME="+data, "CLEAVE_HTTP_TOKEN="+token)
	server.Stderr = os.Stderr
	says, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		stop()
		return nil, err
	}
	defer func() {
		stop()
		_ = server.Wait() // it was killed
	}()
	line, err := bufio.NewReader(says).ReadString('\n')
	at := ready.FindStringSubmatch(line)
	if at == nil {
		return nil, fmt.Errorf("the server did not start: it says %q, %w", line, err)
	}
	if text, err := clients(ctx, at[1], "set", "64", 2*keys).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("fill the server: %w: %s", err, text)
	}
	busy, end := context.WithCancel(ctx)
	c := clients(busy, at[1], l.test, l.depth, 1<<30)
	if err := c.Start(); err != nil {
		end()
		return nil, err
	}
	defer func() {
		end()
		_ = c.Wait() // they were killed
	}()
	time.Sleep(200 * time.Millisecond) // until they are connected
	return fetch(ctx, at[2], l.time)
}

// clients are to send requests to a port.
func clients(ctx context.Context, port, test, depth string, requests int) *exec.Cmd {
	return exec.CommandContext(ctx, "redis-benchmark", "-p", port, "-q", "-d", "64", "-c", "50", "-r", fmt.Sprint(keys), "-t", test, "-P", depth, "-n", fmt.Sprint(requests))
}

// fetch asks a server for a profile of the time to come.
func fetch(ctx context.Context, url string, d time.Duration) (*profile.Profile, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", url, int(d.Seconds())), nil)
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
