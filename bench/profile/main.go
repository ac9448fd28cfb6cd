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
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/cleavekv/cleave/bench/internal/serverprocess"
)

// load is one of redis-benchmark's, on a server with some flags.
type load struct {
	flags []string
	test  string
	depth int // of the pipeline
	time  time.Duration
}

// loads are what the server is trained for.
var loads = []load{
	{[]string{"--appendfsync", "everysec"}, "set", 64, 10 * time.Second},
	{[]string{"--appendfsync", "everysec"}, "get", 64, 6 * time.Second},
	{[]string{"--appendfsync", "everysec"}, "set", 1, 4 * time.Second},
	{[]string{"--appendfsync", "everysec"}, "get", 1, 4 * time.Second},
	{[]string{"--appendfsync", "everysec"}, "incr", 16, 4 * time.Second},
	{[]string{"--appendfsync", "everysec"}, "hset", 16, 3 * time.Second},
	{[]string{"--appendfsync", "everysec"}, "mset", 16, 3 * time.Second},
	{[]string{"--appendfsync", "always"}, "set", 16, 4 * time.Second},
	{[]string{"--storage", "memory"}, "set", 64, 6 * time.Second},
	{[]string{"--cache-mib", "12"}, "get", 16, 6 * time.Second},
	{[]string{"--cache-mib", "12"}, "get", 1, 4 * time.Second},
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
	for _, l := range loads {
		fmt.Fprintf(os.Stderr, "%s with a pipeline of %d, %s\n", l.test, l.depth, strings.Join(l.flags, " "))
		p, err := l.record(ctx, binary, dir)
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

// keys is how many there are.
const keys = 1_000_000

// record starts a server, fills it, and returns where it spends its time under the load.
func (l load) record(ctx context.Context, binary, dir string) (*profile.Profile, error) {
	port, err := serverprocess.FreePort()
	if err != nil {
		return nil, err
	}
	operators := "127.0.0.1:" + port
	server, err := serverprocess.Launch(serverprocess.Options{
		Name: "profiled", Path: binary, Dir: dir, Env: serverprocess.ProfiledEnv,
		Args: func(port, dir string) []string {
			return slices.Concat([]string{"serve", "--data", filepath.Join(dir, "data"), "--resp-addr", "127.0.0.1:" + port}, serverprocess.ProfiledArgs(operators), l.flags)
		},
	})
	defer server.Stop()
	if err != nil {
		return nil, err
	}
	if _, err := server.Benchmark(serverprocess.Load{Test: "set", Depth: 64, Requests: 2 * keys, Keys: keys}); err != nil {
		return nil, err
	}
	end, err := server.BenchmarkUntilStopped(serverprocess.Load{Test: l.test, Depth: l.depth, Keys: keys})
	if err != nil {
		return nil, err
	}
	defer end()
	time.Sleep(200 * time.Millisecond) // until they are connected
	return serverprocess.Profile(ctx, operators, int(l.time.Seconds()))
}
