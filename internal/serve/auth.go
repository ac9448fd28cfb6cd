package serve

import (
	"time"

	"github.com/cleavekv/cleave/internal/acl"
	"github.com/cleavekv/cleave/internal/redis"
)

func init() { handleSlow(map[string]func(*turn){"auth": auth}) }

// begin makes the connection one of the default user, who may have to say a password.
func (c *client) begin() {
	c.become(c.s.users.Default())
	u := c.account.User()
	c.seen.known.Store(u.NoPass && u.On)
}

// stranger tells that a client has not said who it is, and has to.
func (c *client) stranger() bool {
	if c.seen.known.Load() {
		return false
	}
	u := c.account.User()
	return !u.NoPass || !u.On
}

func auth(t *turn) {
	name, password := acl.DefaultName, t.Args[1]
	switch len(t.Args) {
	case 2:
		if t.s.users.Get(acl.DefaultName).NoPass {
			t.out.Fail(redis.Error("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"))
			return
		}
	case 3:
		name, password = string(t.Args[1]), t.Args[2]
	default:
		t.out.Fail(redis.ErrSyntax)
		return
	}
	if err := t.authenticate(name, password); err != nil {
		t.out.Fail(err)
		return
	}
	t.out.OK()
}

// authenticate makes the connection one of a user.
func (t *turn) authenticate(name string, password []byte) error {
	a, err := t.s.users.Auth(name, password)
	if err != nil {
		t.s.denied.note(t, "auth", "AUTH", name)
		select {
		case <-time.After(t.s.guessers.penalty(t.c.from, t.s.opts.Now())):
		case <-t.ctx.Done():
		}
		return redis.Error("WRONGPASS invalid username-password pair or user is disabled.")
	}
	t.c.seen.known.Store(true)
	t.c.become(a)
	return nil
}
