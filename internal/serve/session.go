package serve

import (
	"strconv"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/internal/resp"
)

func init() {
	handle(map[string]func(*turn){
		"ping": ping, "echo": func(t *turn) { t.out.Bulk(t.Args[1]) },
		"select": selectSpace, "quit": quit, "reset": reset,
		"readonly": accept, "readwrite": accept, "asking": accept,
	})
	handleSlow(map[string]func(*turn){"hello": hello})
}

// accept answers that all is well.
func accept(t *turn) { t.out.OK() }

func ping(t *turn) {
	switch {
	case len(t.Args) > 2:
		t.out.Fail(redis.Arity("ping"))
	case t.c.listening && t.out.Version == resp.RESP2:
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

// quit answers first and closes then.
func quit(t *turn) {
	t.out.OK()
	t.c.closing = true
}

// reset makes the connection as it was at first.
func reset(t *turn) {
	c := t.c
	c.queue, c.watched, c.silent, c.skip = nil, nil, false, 0
	t.s.hub.leave(c)
	t.s.tracker.end(c)
	t.messagesFirst()
	c.listening, c.tracks, c.caching = false, nil, false
	c.seen.listens.Store(false)
	c.use(t.s.defaultSpace())
	c.begin()
	c.seen.set(func(a *about) { a.name = "" })
	c.speak(resp.RESP2)
	t.out.Simple("RESET")
}

// selectSpace chooses a keyspace: 0 is the default one, anything else is a name.
func selectSpace(t *turn) {
	space, err := t.s.spaceOf(string(t.Args[1]))
	if err != nil {
		t.out.Fail(err)
		return
	}
	t.c.use(space)
	t.out.OK()
}

// spaceOf returns the keyspace that a client names.
func (s *Server) spaceOf(name string) (*node.Space, error) {
	if name == "0" {
		name = node.DefaultName
	}
	space, err := s.node.Keyspace(name)
	switch {
	case err == nil && space.OfIndex() != "":
		return nil, redis.Error("ERR the keyspace has the entries of an index: see CLEAVE.INDEX SCAN")
	case err == nil:
		return space, nil
	}
	if _, number := strconv.Atoi(name); number == nil {
		return nil, redis.Error("ERR DB index is out of range")
	}
	return nil, redis.Error("ERR no such keyspace: create it, or SELECT 0 for the default one")
}

func hello(t *turn) {
	version, name, who, err := helloOptions(t.Args[1:], t.out.Version)
	if err == nil && who != nil {
		err = t.authenticate(string(who[0]), who[1])
	}
	if err == nil && t.c.stranger() {
		err = redis.Error("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	if err != nil {
		t.out.Fail(err)
		return
	}
	t.messagesFirst() // they are in the version before
	t.c.speak(version)
	t.out.Version = version // it may be another's, in MULTI
	if name != nil {
		t.c.seen.set(func(a *about) { a.name = string(name) })
	}
	t.out.Map(7)
	t.out.Text("server")
	t.out.Text("redis")
	t.out.Text("version")
	t.out.Text(redisVersion)
	t.out.Text("proto")
	t.out.Int(int64(version))
	t.out.Text("id")
	t.out.Int(int64(t.c.id))
	t.out.Text("mode")
	t.out.Text("standalone")
	t.out.Text("role")
	t.out.Text("master")
	t.out.Text("modules")
	t.out.Array(0)
}

// redisVersion is the version of Redis whose commands are spoken here.
const redisVersion = "7.2.0"

// helloOptions reads what HELLO is told: the version, a name for the connection, and a
// user with its password.
func helloOptions(args [][]byte, version resp.Version) (_ resp.Version, name []byte, who [][]byte, err error) {
	if len(args) > 0 {
		n, err := strconv.Atoi(string(args[0]))
		if err != nil {
			return version, nil, nil, redis.Error("ERR Protocol version is not an integer or out of range")
		}
		if n != 2 && n != 3 {
			return version, nil, nil, redis.Error("NOPROTO unsupported protocol version")
		}
		version, args = resp.Version(n), args[1:]
	}
	for len(args) > 0 {
		switch {
		case redis.Is(args[0], "AUTH") && len(args) >= 3:
			who, args = args[1:3], args[3:]
		case redis.Is(args[0], "SETNAME") && len(args) >= 2:
			if !plainName(args[1]) {
				return version, nil, nil, errName
			}
			name, args = args[1], args[2:]
		default:
			return version, nil, nil, redis.Error("ERR Syntax error in HELLO option '" + string(args[0]) + "'")
		}
	}
	return version, name, who, nil
}
