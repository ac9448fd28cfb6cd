package serverprocess

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// ValueBytes is how long the values are.
const ValueBytes = 64

// connections is how many clients the benchmark has.
const connections = 50

// Load is what redis-benchmark does.
type Load struct {
	// Test is the name of a test of it, Depth how many requests a connection has under way.
	Test  string
	Depth int
	// Requests of Keys different keys.
	Requests, Keys int
	// Cores are the processors that it runs on, all if it is empty.
	Cores []int
}

// Seen is what redis-benchmark reports.
type Seen struct {
	PerSecond float64
	P50, P99  float64 // nanoseconds
}

// command is redis-benchmark with its arguments.
func (l Load) command(port string, more ...string) *exec.Cmd {
	return pin(l.Cores, "redis-benchmark", append([]string{"-p", port, "-t", l.Test, "-n", strconv.Itoa(l.Requests), "-r", strconv.Itoa(l.Keys),
		"-d", strconv.Itoa(ValueBytes), "-c", strconv.Itoa(connections), "-P", strconv.Itoa(l.Depth)}, more...)...)
}

// Benchmark runs redis-benchmark once.
func (s *Server) Benchmark(l Load) (r Seen, err error) {
	out, err := l.command(s.Port, "--csv").Output()
	if err != nil {
		return r, fmt.Errorf("redis-benchmark of %s: %w", s.Name, err)
	}
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil || len(rows) < 2 {
		return r, fmt.Errorf("redis-benchmark of %s says %q: %w", s.Name, out, err)
	}
	figure := func(column string, unit float64) float64 {
		for i, name := range rows[0] {
			if name == column {
				f, _ := strconv.ParseFloat(rows[len(rows)-1][i], 64)
				return f * unit
			}
		}
		return 0
	}
	r = Seen{figure("rps", 1), figure("p50_latency_ms", 1e6), figure("p99_latency_ms", 1e6)}
	if r.PerSecond == 0 {
		return r, fmt.Errorf("redis-benchmark of %s says %q", s.Name, out)
	}
	return r, nil
}

// BenchmarkUntilStopped loads the server until the returned function is called.
func (s *Server) BenchmarkUntilStopped(l Load) (stop func(), err error) {
	l.Requests = 1 << 30
	cmd := l.command(s.Port, "-q")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}, nil
}

// Fill writes each of the keys that redis-benchmark asks for once.
func (s *Server) Fill(keys int) error {
	c, err := net.Dial("tcp", s.address())
	if err != nil {
		return err
	}
	defer c.Close()
	in, value := bufio.NewReader(c), strings.Repeat("v", ValueBytes)
	for k := 0; k < keys; {
		var out []byte
		answers := 0
		for ; k < keys && answers < 1000; answers++ {
			key := fmt.Sprintf("key:%012d", k)
			out = fmt.Appendf(out, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(key), key, len(value), value)
			k++
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
		for range answers {
			if line, err := in.ReadString('\n'); err != nil || line != "+OK\r\n" {
				return fmt.Errorf("fill %s: it says %q, %w", s.Name, line, err)
			}
		}
	}
	return nil
}

// Profile asks our server at an address for operators for a profile of the seconds to come.
func Profile(ctx context.Context, address string, seconds int) (*profile.Profile, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, seconds), nil)
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
