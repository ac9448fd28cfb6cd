package server

import (
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// While a group is held up by a large commit, such as that of a COPY of a hash of a million fields, the
// clients of a loop that ask for other things go on, and those that need the group are served after it.
func TestLargeCommit_HoldsUpOnlyClientsThatNeedItsGroup(t *testing.T) {
	for _, sh := range []serverShape{shapes[0], shapes[1]} {
		l := startServer(t, sh, Options{})
		other := l.dial()
		other.runScript("SET k 1 -> OK\nHSET h f v -> (1)")
		part := l.s.node.GroupHostAt(l.s.defaultKeyspace().AppendPosition(nil, []byte("k")))
		release, held := make(chan struct{}), make(chan struct{})
		end := part.Group.BeginLargeRequest()
		go func() {
			defer end()
			_ = group.RunBetweenBatches(ctx, []*group.Group{part.Group}, func() { close(held); <-release })
		}()
		<-held
		var writers []*testConn
		for _, request := range []string{"SET k 2", "HGET h f", "MSET k2 a k3 b", "INCR n"} {
			for range 4 { // on each of the loops
				c := l.dial()
				c.send(request)
				writers = append(writers, c)
			}
		}
		time.Sleep(20 * time.Millisecond)
		for range 8 {
			c := l.dial()
			_ = c.SetReadDeadline(time.Now().Add(eventually.Limit()))
			c.runScript("PING -> PONG\nGET k -> 1")
		}
		close(release)
		for _, c := range writers {
			if got := c.readReply(); got == "" || got[0] == '-' {
				t.Errorf("a client that had to wait was answered %q", got)
			}
		}
		other.runScript("GET k -> 2\nGET n -> 4")
	}
}
