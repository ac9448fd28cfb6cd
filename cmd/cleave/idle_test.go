package main

import (
	"errors"
	"net"
	"regexp"
	"strconv"
	"syscall"
	"testing"
)

// Ten thousand connections that say nothing take little memory, and others are served.
func TestTenThousandIdleConnections(t *testing.T) {
	const n = 10_000
	p := serving(t, "--storage", "memory", "--maxclients", strconv.Itoa(n+100))
	c := client(p.addr)
	defer c.Close()
	heap := func() int {
		m := regexp.MustCompile(`heap_bytes:(\d+)`).FindStringSubmatch(c.Info(ctx, "memory").Val())
		if m == nil {
			t.Fatal("INFO memory does not tell heap_bytes")
		}
		bytes, _ := strconv.Atoi(m[1])
		return bytes
	}
	before := heap()
	idle := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range idle {
			c.Close()
		}
	}()
	for range n {
		conn, err := net.Dial("tcp", p.addr)
		if errors.Is(err, syscall.EMFILE) {
			t.Skipf("this machine lets a process have %d connections, not %d", len(idle), n)
		}
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	eventually(t, "all of them are there", func() bool {
		m := regexp.MustCompile(`connected_clients:(\d+)`).FindStringSubmatch(c.Info(ctx, "clients").Val())
		there, _ := strconv.Atoi(m[1])
		return there > n
	})
	// What is garbage counts too, so that this is a bound and not the figure.
	if each := (heap() - before) / n; each > 32<<10 {
		t.Errorf("an idle connection takes %d bytes", each)
	}
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
	for _, i := range []int{0, n / 2, n - 1} {
		reply := make([]byte, 7)
		if _, err := idle[i].Write([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := idle[i].Read(reply); err != nil || string(reply) != "+PONG\r\n" {
			t.Errorf("connection %d: %q, %v", i, reply, err)
		}
	}
}
