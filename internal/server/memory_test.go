package server

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// waitUntil waits for something that comes about by itself.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	eventually.Holds(t, what, holds)
}

func TestWhatNeedsMemoryIsRefusedBeyondMaxmemory(t *testing.T) {
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			l := startServer(t, sh, Options{Memory: true})
			c, other := l.dial(), l.dial()
			c.runScript(`
				MSET x value y 1 -> OK
				MULTI -> OK
				GET x -> QUEUED
				PING -> QUEUED
			`)
			other.runScript(`
				MULTI -> OK
				SET x 1 -> QUEUED
				GET x -> QUEUED
			`)
			l.dial().runScript("CONFIG SET maxmemory 1 -> OK")
			c.runScript(`
				EXEC -> [value PONG]
				SET x 2 -> -OOM command not allowed when used memory > 'maxmemory'.
				HSET h f v -> -OOM command not allowed when used memory > 'maxmemory'.
				MSET x 2 y 2 -> -OOM command not allowed when used memory > 'maxmemory'.
				CLEAVE.COUNTER ADD n 1 -> -OOM command not allowed when used memory > 'maxmemory'.
				MGET x y -> [value 1]
				EXPIRE x 100 -> (1)
				DEL y -> (1)
				MULTI -> OK
				SET x 1 -> -OOM*
				EXEC -> -EXECABORT Transaction discarded because of previous errors.
				MULTI -> OK
				SET x 1 -> -OOM*
				DISCARD -> OK
				MEMORY DOCTOR -> The store takes *
			`)
			other.runScript(`
				EXEC -> -EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.
				GET x -> value
				CONFIG SET maxmemory 0 -> OK
				SET x 2 -> OK
			`)
			if info := c.ask("INFO memory"); !strings.Contains(info, "maxmemory:0\r\n") || strings.Contains(info, "used_memory:0\r\n") {
				t.Error(info)
			}
		})
	}
}

// A store that is filled stops at its limit, and goes on when keys are deleted.
func TestAFullStoreGoesOnWhenKeysAreDeleted(t *testing.T) {
	o := shapes[1].options()
	o.CacheBytes, o.BlockCacheBytes, o.FeedBytes = 1<<20, 1<<20, 1<<20
	db, err := cleave.OpenMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	l := startOn(t, db, shapes[1], Options{Memory: true})
	c := l.dial()
	const limit = 24 << 20
	c.runScript(fmt.Sprintf("CONFIG SET maxmemory %d -> OK", limit))
	chance := rand.NewChaCha8([32]byte{1})
	value := func() string { // that cannot be compressed much
		b := make([]byte, 32<<10)
		_, _ = chance.Read(b)
		return hex.EncodeToString(b)
	}
	stored := 0
	for got := "OK"; got == "OK"; stored++ {
		if got = c.ask(fmt.Sprintf("SET k%d %s", stored, value())); got != "OK" && !strings.HasPrefix(got, "-OOM") || stored > 2*limit>>16 {
			t.Fatalf("%d values were stored, and then: %s", stored, got)
		}
	}
	if stored<<16 < limit/8 {
		t.Errorf("%d KiB of values were stored, and the limit is %d KiB", stored*64, limit>>10)
	}
	if used := l.s.measureMemory().inMemoryBytes(true); used < limit/2 { // some was given back since
		t.Errorf("it was refused at %d of %d", used, limit)
	}
	c.runScript("GET k0 -> *\nFLUSHALL -> OK")
	waitUntil(t, "room after everything was deleted", func() bool { return c.ask("SET k v") == "OK" })
}
