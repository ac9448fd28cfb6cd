//go:build unix

package server

import (
	"net"
	"net/netip"
	"strings"
	"sync"
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
	forLoopsAndStreams(t, Options{Clients: n + 10}, func(t *testing.T, l *testServer, _ func() string) {
		busy := l.dial()
		busy.runScript("SET k v -> OK")
		before := heapBytes()
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
		waitUntil(t, "all of them", func() bool { return l.s.clients.Len() == n+1 })
		each := (heapBytes() - before) / int64(n)
		t.Logf("an idle connection takes %d bytes, its other end included", each)
		if each > 32<<10 {
			t.Errorf("an idle connection takes %d bytes", each)
		}
		busy.runScript("GET k -> v\nSET k w -> OK")
		for _, i := range []int{0, n / 2, n - 1} {
			c := &testConn{t, all[i], nil}
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

// A connection that there is no file for waits, and is not tried again all the time.
func TestAConnectionWithoutAFileWaits(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, said func() string) {
		other := l.dial()
		other.runScript("PING -> PONG")
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fd)
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		full := limit
		full.Cur = 0
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &full); err != nil {
			t.Skip("the limit of open files cannot be changed:", err)
		}
		enough := sync.OnceFunc(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) })
		defer enough()
		at := netip.MustParseAddrPort(l.addr)
		if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "word of it", func() bool { return strings.Contains(said(), "cannot accept") })
		other.runScript(strings.Repeat("PING -> PONG\n", 100))
		if n := strings.Count(said(), "cannot accept"); n > 3 {
			t.Errorf("it was tried %d times meanwhile", n)
		}
		enough()
		if _, err := syscall.Write(fd, []byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 7)
		if _, err := syscall.Read(fd, b); err != nil || string(b) != "+PONG\r\n" {
			t.Errorf("%q, %v", b, err)
		}
	})
}
