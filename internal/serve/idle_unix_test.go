//go:build unix

package serve

import (
	"net"
	"syscall"
	"testing"
)

// Connections that say nothing take little, and others are served. A test of cmd/cleave has
// ten thousand of them: there each process has one end alone.
func TestIdleConnectionsTakeLittle(t *testing.T) {
	const n = 2_000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if want := uint64(2*n + 200); uint64(limit.Cur) < want {
		old := limit
		limit.Cur = limit.Max
		if uint64(limit.Max) < want || syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
			t.Skipf("both ends of %d connections need %d files, and this machine allows %d", n, want, old.Max)
		}
		defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) }()
	}
	bothForms(t, Options{Clients: n + 10}, func(t *testing.T, l *lab, _ func() string) {
		busy := l.dial()
		busy.script("SET k v -> OK")
		before := heap()
		all := make([]net.Conn, 0, n)
		defer func() {
			for _, c := range all {
				c.Close()
			}
		}()
		for range n {
			c, err := net.Dial("tcp", l.addr)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		soon(t, "all of them", func() bool { return l.s.clients.len() == n+1 })
		each := (heap() - before) / int64(n)
		t.Logf("an idle connection takes %d bytes, its other end included", each)
		if each > 32<<10 {
			t.Errorf("an idle connection takes %d bytes", each)
		}
		busy.script("GET k -> v\nSET k w -> OK")
		for _, i := range []int{0, n / 2, n - 1} {
			c := &conn{t, all[i], nil}
			if _, err := c.Write([]byte("PING\r\n")); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 7)
			if _, err := c.Conn.Read(b); err != nil || string(b) != "+PONG\r\n" {
				t.Errorf("%q, %v", b, err)
			}
		}
	})
}
