package serve

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/command"
)

// Requests on rows that only the disk has are answered in their order, whatever else the
// pipeline asks for.
func TestPipelinesOnRowsThatAreNotInMemory(t *testing.T) {
	const clients, keys = 4, 60
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			dir := t.TempDir()
			options := sh.options()
			options.Durability = cleave.EverySec
			db := open(t, dir, options)
			for i := range clients * keys {
				for _, kind := range []string{"n", "read"} {
					if err := db.Default().Set(ctx, fmt.Appendf(nil, "%s%d", kind, i), fmt.Append(nil, i)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			l := startOn(t, open(t, dir, options), sh, Options{})
			var wg sync.WaitGroup
			for n := range clients {
				c := l.dial()
				wg.Go(func() { coldPipeline(c, n*keys, keys) })
			}
			wg.Wait()
		})
	}
}

// More clients at once than a round has room for are all answered, in their order, with what
// is said in between.
func TestManyClientsReadRowsThatAreNotInMemory(t *testing.T) {
	const clients, keys = 60, 12
	long := strings.Repeat("k", command.MaxKeyBytes+1)
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			dir := t.TempDir()
			options := sh.options()
			options.Durability = cleave.EverySec
			db := open(t, dir, options)
			for i := range clients * keys {
				if err := db.Default().Set(ctx, fmt.Appendf(nil, "k%d", i), fmt.Append(nil, i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			l := startOn(t, open(t, dir, options), sh, Options{})
			var wg sync.WaitGroup
			for n := range clients {
				c := l.dial()
				wg.Go(func() {
					var want []string
					for i := n * keys; i < (n+1)*keys; i++ {
						c.send(fmt.Sprintf("GET k%d", i))
						want = append(want, fmt.Sprint(i))
						if i%5 == 0 {
							c.sendWords("GET", long)
							want = append(want, "-ERR the key is too long")
						}
					}
					for i, w := range want {
						if got := c.read(); got != w && !strings.HasPrefix(w, "-ERR") || got[0] != w[0] {
							t.Errorf("answer %d: %.80s, want %s", i, got, w)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// How long a read has waited for the disk is noted, and where that was.
func TestReadsThatWaitForTheDiskAreNoted(t *testing.T) {
	dir := t.TempDir()
	sh := shapes[1]
	db := open(t, dir, sh.options())
	if err := db.Default().Set(ctx, []byte("k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	l := startOn(t, open(t, dir, sh.options()), sh, Options{})
	if err := l.s.Configure(map[string]string{"slowlog-log-slower-than": "0"}); err != nil {
		t.Fatal(err)
	}
	c := l.dial()
	c.script("GET k -> v\nGET k -> v") // the second is in memory
	noted := l.s.Slowlog()
	if len(noted) != 1 || noted[0].Command != "get" || noted[0].Keys[0].String() != "k" || noted[0].Seconds <= 0 || noted[0].Shard == 0 {
		t.Errorf("noted is %+v", noted)
	}
}

// coldPipeline sends all of its requests before it reads an answer.
func coldPipeline(c *conn, from, n int) {
	var want []string
	add := func(reply, format string, args ...any) {
		c.send(fmt.Sprintf(format, args...))
		want = append(want, reply)
	}
	for i := from; i < from+n; i++ { // the disk is asked for all of them together
		add(fmt.Sprint(i), "GET read%d", i)
		add("(nil)", "GET absent%d", i)
	}
	for i := from; i < from+n; i++ {
		add(fmt.Sprint(i), "GET n%d", i)
		add(fmt.Sprintf("(%d)", i+1), "INCR n%d", i)
		add(fmt.Sprint(i+1), "GET n%d", i)
		add("(0)", "SETNX n%d x", i)
		add("(1)", "SETNX new%d %d", i, i)
		add("-ERR wrong number of arguments for 'get' command", "GET")
		add(fmt.Sprintf("[%d %d (nil)]", i+1, i), "MGET n%d new%d none%d", i, i, i)
		add("-ERR value is not an integer or out of range", "INCRBY n%d much", i)
		add("(nil)", "GET none%d", i)
		add("PONG", "PING")
		add("(1)", "DEL n%d", i)
		add("(nil)", "GETDEL n%d", i)
	}
	for i, w := range want {
		if got := c.read(); got != w {
			c.t.Errorf("answer %d: %s, want %s", i, got, w)
			return
		}
	}
}
