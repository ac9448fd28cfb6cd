package serve

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
)

// A server that ends executes nothing of a client behind a request that it has refused for
// that: what a pipeline writes last is not there without what it writes before.
func TestAServerThatEndsKeepsTheOrderOfPipelines(t *testing.T) {
	for _, sh := range shapes[1:] {
		t.Run(sh.name, func(t *testing.T) {
			for range 20 {
				endWhileWriting(t, sh)
			}
		})
	}
}

func endWhileWriting(t *testing.T, sh shape) {
	db := open(t, "", sh.options())
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	l, done := serveOn(t, db, sh, Options{})
	const clients, rounds = 4, 300
	for id := range clients {
		var b strings.Builder
		for i := 1; i <= rounds; i++ {
			// The keys of the first are of several groups: it is a transaction.
			fmt.Fprintf(&b, "MSET a%d %d b%d %d c%d %d\r\nSET last%d %d\r\n", id, i, id, i, id, i, id, i)
		}
		if _, err := l.dial().Write([]byte(b.String())); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Millisecond)
	l.s.Close()
	<-done
	for id := range clients {
		number := func(name string) int {
			v, err := db.Default().Get(ctx, fmt.Appendf(nil, "%s%d", name, id))
			if err != nil && !errors.Is(err, cleave.ErrNotFound) {
				t.Fatal(err)
			}
			n, _ := strconv.Atoi(string(v))
			return n
		}
		first, last := number("a"), number("last")
		if first < last || first > last+1 {
			t.Errorf("request %d of a client was executed, and of those before it only %d", last, first)
		}
	}
}
