package server

import (
	"time"

	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
)

func init() {
	registerHandlers(map[string]func(*call){
		"ping": handlePing, "echo": func(t *call) { t.out.Bulk(t.Args[1]) },
		"select": handleSelect, "quit": handleQuit, "reset": handleReset,
		"readonly": handleNoOp, "readwrite": handleNoOp, "asking": handleNoOp,
	})
	registerBlockingHandlers(map[string]func(*call){"hello": handleHello})
}

// handleNoOp answers that all is well.
func handleNoOp(t *call) { t.out.OK() }

func handlePing(t *call) {
	switch {
	case len(t.Args) > 2:
		t.out.Fail(redis.NewArityError("ping"))
	case t.c.subscribed && t.out.Version == resp.RESP2:
		t.out.Array(2)
		t.out.Text("pong")
		if len(t.Args) == 2 {
			t.out.Bulk(t.Args[1])
		} else {
			t.out.Text("")
		}
	case len(t.Args) == 2:
		t.out.Bulk(t.Args[1])
	default:
		t.out.Simple("PONG")
	}
}

// handleQuit answers first and closes then.
func handleQuit(t *call) {
	t.out.OK()
	t.c.Closing = true
}

// handleReset makes the connection as it was at first.
func handleReset(t *call) {
	c := t.c
	c.queue, c.RepliesOff, c.SkipReplies = nil, false, 0
	c.clearWatched()
	t.s.hub.UnsubscribeAll(&c.Conn)
	t.s.tracker.Stop(&c.Conn)
	t.collectMailFirst()
	c.subscribed, c.tracking, c.cachingGiven, c.nameBytes, c.prefixBytes = false, nil, false, 0, 0
	c.Status.Subscribed.Store(false)
	c.setKeyspace(t.s.defaultKeyspace())
	c.setDefaultAccount()
	c.Status.UpdateInfo(func(a *conn.Info) { a.Name = "" })
	c.SetProtocol(resp.RESP2)
	t.out.Simple("RESET")
}

// handleSelect chooses a keyspace: 0 is the default one, anything else is a name.
func handleSelect(t *call) {
	space, err := t.s.findKeyspace(string(t.Args[1]))
	if err != nil {
		t.out.Fail(err)
		return
	}
	t.c.setKeyspace(space)
	t.out.OK()
}

func handleHello(t *call) {
	version, name, who, err := parseHello(t.Args[1:], t.out.Version)
	if err == nil && who != nil {
		err = t.authenticateUser(string(who[0]), who[1])
	}
	if err == nil && t.c.needsAuth() {
		err = redis.Error("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	if err != nil {
		t.out.Fail(err)
		return
	}
	t.collectMailFirst() // they are in the version before
	t.c.SetProtocol(version)
	t.out.Version = version // it may be another's, in MULTI
	if name != nil {
		t.c.Status.UpdateInfo(func(a *conn.Info) { a.Name = string(name) })
	}
	t.out.Map(7)
	t.out.Text("server")
	t.out.Text("redis")
	t.out.Text("version")
	t.out.Text(redisVersion)
	t.out.Text("proto")
	t.out.Int(int64(version))
	t.out.Text("id")
	t.out.Int(int64(t.c.ID))
	t.out.Text("mode")
	t.out.Text(t.s.mode())
	t.out.Text("role")
	t.out.Text("master")
	t.out.Text("modules")
	t.out.Array(0)
}

// redisVersion is the version of Redis whose commands are spoken here.
const redisVersion = "7.2.0"

// parseHello reads the arguments of HELLO: the version, a name for the connection, and a
// user with its password.
func parseHello(args [][]byte, version resp.Version) (_ resp.Version, name []byte, who [][]byte, err error) {
	if len(args) > 0 {
		n, ok := redis.Integer(args[0])
		if !ok {
			return version, nil, nil, redis.Error("ERR Protocol version is not an integer or out of range")
		}
		if n != 2 && n != 3 {
			return version, nil, nil, redis.Error("NOPROTO unsupported protocol version")
		}
		version, args = resp.Version(n), args[1:]
	}
	for len(args) > 0 {
		switch {
		case redis.IsKeyword(args[0], "AUTH") && len(args) >= 3:
			who, args = args[1:3], args[3:]
		case redis.IsKeyword(args[0], "SETNAME") && len(args) >= 2:
			if !isPlainName(args[1]) {
				return version, nil, nil, errClientName
			}
			name, args = args[1], args[2:]
		default:
			return version, nil, nil, redis.Error("ERR Syntax error in HELLO option '" + redis.Printed(args[0]) + "'")
		}
	}
	return version, name, who, nil
}

func init() { registerBlockingHandlers(map[string]func(*call){"auth": handleAuth}) }

func handleAuth(t *call) {
	name, password := acl.DefaultUser, t.Args[1]
	switch len(t.Args) {
	case 2:
		if t.s.users.Get(acl.DefaultUser).NoPass {
			t.out.Fail(redis.Error("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"))
			return
		}
	case 3:
		name, password = string(t.Args[1]), t.Args[2]
	default:
		t.out.Fail(redis.ErrSyntax)
		return
	}
	if err := t.authenticateUser(name, password); err != nil {
		t.out.Fail(err)
		return
	}
	t.out.OK()
}

// authenticateUser makes the connection one of a user.
func (t *call) authenticateUser(name string, password []byte) error {
	a, err := t.s.users.Authenticate(name, password)
	if err != nil {
		t.s.deniedLog.record(t, "auth", "AUTH", name)
		t.s.clients.Log.Warn("authentication failed", "user", name[:min(len(name), maxNameBytes)], "id", t.c.ID, "addr", t.c.RemoteAddr)
		select {
		case <-time.After(t.s.authThrottle.recordFailure(t.c.RemoteAddr, t.s.opts.Now())):
		case <-t.ctx.Done():
		}
		return redis.Error("WRONGPASS invalid username-password pair or user is disabled.")
	}
	t.c.Status.Authenticated.Store(true)
	t.c.setAccount(a)
	return nil
}
