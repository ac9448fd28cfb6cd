package server

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// Beyond what is counted, the number of keys is about right, whatever they hold.
func TestINFOTellsAboutHowManyKeysThereAre(t *testing.T) {
	const keys, fields = 6000, 3
	for _, sh := range shapes[:3] {
		t.Run(sh.name, func(t *testing.T) {
			l := startServer(t, sh, Options{})
			c := redis.NewClient(&redis.Options{Addr: l.addr, ReadTimeout: time.Minute})
			defer c.Close()
			p := c.Pipeline()
			for i := range keys {
				if i%2 == 0 {
					p.Set(ctx, fmt.Sprint("key:", i), i, 0)
					continue
				}
				for f := range fields { // which are rows of their own
					p.HSet(ctx, fmt.Sprint("key:", i), f, i)
				}
			}
			if _, err := p.Exec(ctx); err != nil {
				t.Fatal(err)
			}
			for _, most := range []int{keys / 10, keys / 2, keys, keys + 1} {
				n, err := l.s.estimateKeys(l.s.defaultKeyspace(), most)
				low, high := uint64(keys/2), uint64(keys*2) // the estimate is of a few rows
				if most > keys {
					low, high = keys, keys // they were counted
				}
				if err != nil || n.keys < low || n.keys > high {
					t.Errorf("counting %d of %d keys: %d, %v", most, keys, n.keys, err)
				}
			}
		})
	}
}

func TestAServerSaysWhereItIsFound(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		_, port, err := net.SplitHostPort(l.addr)
		if err != nil {
			t.Fatal(err)
		}
		c := l.dial()
		c.runScript("CONFIG GET port -> [port " + port + "]\nCONFIG GET bind -> [bind 127.0.0.1]\nCONFIG GET tls-port -> [tls-port 0]")
		if info := c.ask("INFO server"); !strings.Contains(info, "tcp_port:"+port) {
			t.Errorf("it is at port %s, and says\n%s", port, info)
		}
	})
}

// INFO shows how many keys expire, when, and how many have.
func TestINFOTellsWhatExpires(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		c.runScript("CONFIG RESETSTAT -> OK\nSET lasting 1 -> OK\nSET late 1 EX 100 -> OK\nSET later 1 EX 300 -> OK\nHSET gone f 1 -> (1)\nPEXPIRE gone 1 -> (1)\nSET gone2 1 PX 1 -> OK")
		var info string
		for began := time.Now(); !strings.Contains(info, "expired_keys:2\r\n"); info = c.ask("INFO stats") {
			if time.Since(began) > eventually.Limit() {
				t.Fatalf("two keys have expired, and INFO says\n%s", info)
			}
			time.Sleep(10 * time.Millisecond)
		}
		var keys, expires, ttl int
		info = c.ask("INFO keyspace")
		if _, err := fmt.Sscanf(info[strings.Index(info, "db0"):], "db0:keys=%d,expires=%d,avg_ttl=%d", &keys, &expires, &ttl); err != nil || keys != 3 || expires != 2 || ttl < 100_000 || ttl > 200_000 {
			t.Errorf("%s%v", info, err)
		}
		c.runScript("CONFIG RESETSTAT -> OK")
		if info := c.ask("INFO stats"); !strings.Contains(info, "expired_keys:0\r\n") {
			t.Errorf("after a reset INFO says\n%s", info)
		}
	})
}

// INFO shows how much came and went, and how fast.
func TestINFOTellsOfTraffic(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		c.runScript("PING -> PONG\nCONFIG RESETSTAT -> OK")
		value := strings.Repeat("x", 10_000)
		c.runScript("SET k " + value + " -> OK\nGET k -> " + value + "\nGET k -> " + value)
		for began := time.Now(); l.s.stats.BytesOut.Load() < 20_000 && time.Since(began) < eventually.Limit(); { // it is counted behind the write
			time.Sleep(time.Millisecond)
		}
		info := c.ask("INFO stats")
		if !strings.Contains(info, "total_net_input_bytes:10") || !strings.Contains(info, "total_net_output_bytes:20") {
			t.Errorf("10 kB came and 20 kB went, and INFO says\n%s", info)
		}
	})
}

func TestShutdownAsksForTheEndOnceItIsUnderstood(t *testing.T) {
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			var asked atomic.Int64
			l := startServer(t, sh, Options{Dir: "/where/it/is", Shutdown: func() { asked.Add(1) }})
			c := l.dial()
			c.runScript(`
				CONFIG GET dir -> [dir /where/it/is]
				SHUTDOWN LATER -> -ERR syntax error
				SHUTDOWN SAVE NOSAVE -> -ERR syntax error
				SHUTDOWN ABORT NOW -> -ERR syntax error
				SHUTDOWN ABORT -> -ERR No shutdown in progress.
				MULTI -> OK
				SHUTDOWN -> -ERR Command not allowed inside a transaction
				DISCARD -> OK
				ACL SETUSER reader on nopass +@read +@connection ~* -> OK
				AUTH reader x -> OK`)
			if got := c.ask("SHUTDOWN"); got != "-NOPERM this user has no permissions to run the 'shutdown' command" {
				t.Errorf("a reader is told %s", got)
			}
			if n := asked.Load(); n != 0 {
				t.Fatalf("asked %d times for what is refused", n)
			}
			c.runScript("AUTH default x -> OK")
			for i, line := range []string{"SHUTDOWN", "shutdown nosave", "SHUTDOWN SAVE NOW FORCE"} {
				c.send(line)
				c.runScript("PING -> PONG") // there was no answer before
				if n := asked.Load(); n != int64(i+1) {
					t.Errorf("%s: asked %d times", line, n)
				}
			}
		})
	}
	c := startServer(t, shapes[0], Options{}).dial()
	c.runScript("SHUTDOWN -> -ERR SHUTDOWN is not served here: end the program that the server is part of")
}
