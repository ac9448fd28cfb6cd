package serve

import (
	"bytes"
	"strconv"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/internal/resp"
)

func init() {
	handle(map[string]edge{
		"ping": ping, "echo": echo, "hello": hello, "select": selectSpace, "quit": quit, "reset": reset,
		"client|id": func(w *worker, c *client, _ redis.Request) {
			w.say(c, func(out *redis.Writer) { out.Int(int64(c.id)) })
		},
		"client|getname": func(w *worker, c *client, _ redis.Request) { w.say(c, func(out *redis.Writer) { c.getName(out) }) },
		"client|setname": func(w *worker, c *client, r redis.Request) {
			w.say(c, func(out *redis.Writer) { c.setName(out, r.Args[2]) })
		},
		"client|setinfo": func(w *worker, c *client, r redis.Request) {
			w.say(c, func(out *redis.Writer) { c.setInfo(out, r.Args[2], r.Args[3]) })
		},
		"client|no-evict": onOff, "client|no-touch": onOff, "client|reply": clientReply,
	})
}

func ping(w *worker, c *client, r redis.Request) {
	w.say(c, func(out *redis.Writer) {
		switch {
		case len(r.Args) > 2:
			out.Fail(redis.Arity("ping"))
		case len(r.Args) == 2:
			out.Bulk(r.Args[1])
		default:
			out.Simple("PONG")
		}
	})
}

func echo(w *worker, c *client, r redis.Request) {
	w.say(c, func(out *redis.Writer) { out.Bulk(r.Args[1]) })
}

// quit answers first and closes then.
func quit(w *worker, c *client, _ redis.Request) {
	w.say(c, func(out *redis.Writer) { out.OK() })
	c.closing = true
}

func reset(w *worker, c *client, _ redis.Request) {
	w.say(c, func(out *redis.Writer) {
		c.queue, c.watched, c.name, c.space = nil, nil, nil, w.s.space
		out.Version = resp.RESP2
		out.Simple("RESET")
	})
}

// selectSpace chooses a keyspace: 0 is the default one, anything else is a name.
func selectSpace(w *worker, c *client, r redis.Request) {
	w.say(c, func(out *redis.Writer) {
		space, err := w.s.spaceOf(string(r.Args[1]))
		if err != nil {
			out.Fail(err)
			return
		}
		c.space = space
		out.OK()
	})
}

// spaceOf returns the keyspace that a client names.
func (s *Server) spaceOf(name string) (*node.Space, error) {
	if name == "0" {
		name = node.DefaultName
	}
	space, err := s.node.Keyspace(name)
	if err == nil {
		return space, nil
	}
	if _, number := strconv.Atoi(name); number == nil {
		return nil, redis.Error("ERR DB index is out of range")
	}
	return nil, redis.Error("ERR no such keyspace: create it, or SELECT 0 for the default one")
}

func hello(w *worker, c *client, r redis.Request) {
	w.say(c, func(out *redis.Writer) {
		version, name, err := w.s.helloOptions(r.Args[1:], out.Version)
		if err != nil {
			out.Fail(err)
			return
		}
		out.Version = version
		if name != nil {
			c.name = bytes.Clone(name)
		}
		out.Map(7)
		out.Text("server")
		out.Text("redis")
		out.Text("version")
		out.Text(redisVersion)
		out.Text("proto")
		out.Int(int64(version))
		out.Text("id")
		out.Int(int64(c.id))
		out.Text("mode")
		out.Text("standalone")
		out.Text("role")
		out.Text("master")
		out.Text("modules")
		out.Array(0)
	})
}

// redisVersion is the version of Redis whose commands are spoken here.
const redisVersion = "7.2.0"

func (s *Server) helloOptions(args [][]byte, version resp.Version) (_ resp.Version, name []byte, err error) {
	if len(args) > 0 {
		n, err := strconv.Atoi(string(args[0]))
		if err != nil {
			return version, nil, redis.Error("ERR Protocol version is not an integer or out of range")
		}
		if n != 2 && n != 3 {
			return version, nil, redis.Error("NOPROTO unsupported protocol version")
		}
		version, args = resp.Version(n), args[1:]
	}
	for len(args) > 0 {
		switch {
		case redis.Is(args[0], "SETNAME") && len(args) >= 2:
			if !plainName(args[1]) {
				return version, nil, errName
			}
			name, args = args[1], args[2:]
		default:
			return version, nil, redis.Error("ERR Syntax error in HELLO option '" + string(args[0]) + "'")
		}
	}
	return version, name, nil
}

const errName = redis.Error("ERR Client names cannot contain spaces, newlines or special characters.")

// plainName tells whether a name can stand in a line of CLIENT LIST.
func plainName(name []byte) bool {
	for _, b := range name {
		if b < '!' || b > '~' {
			return false
		}
	}
	return true
}

func (c *client) getName(out *redis.Writer) {
	if len(c.name) == 0 {
		out.Null()
		return
	}
	out.Bulk(c.name)
}

func (c *client) setName(out *redis.Writer, name []byte) {
	if !plainName(name) {
		out.Fail(errName)
		return
	}
	c.name = bytes.Clone(name)
	out.OK()
}

func (c *client) setInfo(out *redis.Writer, what, value []byte) {
	switch {
	case !plainName(value):
		out.Fail(redis.Error("ERR " + string(what) + " cannot contain spaces, newlines or special characters."))
		return
	case redis.Is(what, "LIB-NAME"):
		c.library = bytes.Clone(value)
	case redis.Is(what, "LIB-VER"):
		c.libraryVersion = bytes.Clone(value)
	default:
		out.Fail(redis.Error("ERR Unrecognized option '" + string(what) + "'"))
		return
	}
	out.OK()
}

// onOff accepts ON and OFF.
func onOff(w *worker, c *client, r redis.Request) {
	w.say(c, func(out *redis.Writer) {
		if redis.Is(r.Args[2], "ON") || redis.Is(r.Args[2], "OFF") {
			out.OK()
		} else {
			out.Fail(redis.ErrSyntax)
		}
	})
}

func clientReply(w *worker, c *client, r redis.Request) {
	switch mode := r.Args[2]; {
	case redis.Is(mode, "ON"):
		c.silent = false
		w.say(c, func(out *redis.Writer) { out.OK() })
	case redis.Is(mode, "OFF"):
		c.silent = true
	case redis.Is(mode, "SKIP"):
		c.skip = 2
	default:
		w.say(c, func(out *redis.Writer) { out.Fail(redis.ErrSyntax) })
	}
}
