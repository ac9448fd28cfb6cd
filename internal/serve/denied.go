package serve

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/redis"
)

func init() { handle(map[string]func(*turn){"acl|log": aclLog}) }

// denied is the newest of what was refused.
type denied struct {
	mu   sync.Mutex
	list []denial
}

type denial struct {
	count                             int
	reason, context, object, user, by string
	first                             time.Time
}

// maxDenied is how many are kept.
const maxDenied = 128

func (d *denied) note(t *turn, reason, object, user string) {
	now, object := t.s.opts.Now(), object[:min(len(object), maxNameBytes)]
	user = user[:min(len(user), maxNameBytes)]
	context := "toplevel"
	if t.c.queue != nil {
		context = "multi"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.list {
		e := &d.list[i]
		if e.reason == reason && e.context == context && e.object == object && e.user == user && now.Sub(e.first) < time.Minute {
			e.count++
			return
		}
	}
	d.list = slices.Insert(d.list, 0, denial{1, reason, context, object, user, t.s.line(t.c, now), now})
	d.list = d.list[:min(len(d.list), maxDenied)]
}

func aclLog(t *turn) {
	n := 10
	if len(t.Args) == 3 {
		if redis.Is(t.Args[2], "RESET") {
			t.s.denied.mu.Lock()
			t.s.denied.list = nil
			t.s.denied.mu.Unlock()
			t.out.OK()
			return
		}
		var err error
		if n, err = strconv.Atoi(string(t.Args[2])); err != nil || n < 0 {
			t.out.Fail(redis.Error("ERR value is not an integer or out of range"))
			return
		}
	}
	t.s.denied.mu.Lock()
	list := slices.Clone(t.s.denied.list[:min(n, len(t.s.denied.list))])
	t.s.denied.mu.Unlock()
	t.out.Array(len(list))
	for _, e := range list {
		t.out.Map(7)
		t.out.Text("count")
		t.out.Int(int64(e.count))
		for _, p := range [][2]string{{"reason", e.reason}, {"context", e.context}, {"object", e.object}, {"username", e.user},
			{"age-seconds", fmt.Sprintf("%.3f", t.s.opts.Now().Sub(e.first).Seconds())}, {"client-info", e.by}} {
			t.out.Text(p[0])
			t.out.Text(p[1])
		}
	}
}
