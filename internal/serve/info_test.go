package serve

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Beyond what is counted, the number of keys is about right, whatever they hold.
func TestINFOTellsAboutHowManyKeysThereAre(t *testing.T) {
	const keys, fields = 6000, 3
	for _, sh := range shapes[:3] {
		t.Run(sh.name, func(t *testing.T) {
			l := start(t, sh, Options{})
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
				n, err := l.s.aboutKeys(l.s.defaultSpace(), most)
				low, high := uint64(keys/2), uint64(keys*2) // the estimate is of a few rows
				if most > keys {
					low, high = keys, keys // they were counted
				}
				if err != nil || n < low || n > high {
					t.Errorf("counting %d of %d keys: %d, %v", most, keys, n, err)
				}
			}
		})
	}
}

func TestAServerSaysWhereItIsFound(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		_, port, err := net.SplitHostPort(l.addr)
		if err != nil {
			t.Fatal(err)
		}
		c := l.dial()
		c.script("CONFIG GET port -> [port " + port + "]\nCONFIG GET bind -> [bind 127.0.0.1]\nCONFIG GET tls-port -> [tls-port 0]")
		if info := c.ask("INFO server"); !strings.Contains(info, "tcp_port:"+port) {
			t.Errorf("it is at port %s, and says\n%s", port, info)
		}
	})
}
