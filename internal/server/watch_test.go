package server

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// A WATCH costs the same however many keys are watched already, be their names as long as they may.
func TestWatch_WithManyKeysWatched_DoesNotLookAtThem(t *testing.T) {
	l := startServer(t, shapes[0], Options{})
	c := l.dial()
	var names strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&names, " %04000d", i)
	}
	c.runScript("WATCH" + names.String() + " -> OK")
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	before := allocated()
	for i := range 100 {
		c.runScript(fmt.Sprintf("WATCH k%d -> OK", i))
	}
	if n := allocated() - before; n > 20<<20 {
		t.Errorf("100 WATCHes of short names allocate %d MiB while 1,000 long names are watched", n>>20)
	}
	c.runScript("WATCH k1 k2 k2 -> OK\nSET k2 x -> OK\nMULTI -> OK\nEXEC -> (nil)")
}
