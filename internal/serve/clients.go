package serve

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/internal/resp"
)

func init() {
	handle(map[string]func(*turn){
		"client|id":       func(t *turn) { t.out.Int(int64(t.c.id)) },
		"client|getname":  getName,
		"client|setname":  setName,
		"client|setinfo":  setInfo,
		"client|info":     func(t *turn) { t.out.Verbatim(t.s.line(t.c, t.s.opts.Now()) + "\n") },
		"client|list":     clientList,
		"client|kill":     clientKill,
		"client|reply":    clientReply,
		"client|no-evict": onOff,
		"client|no-touch": onOff,
		"client|help": help("CLIENT", "GETNAME", "    Return the name of the current connection.", "ID", "    Return the ID of the current connection.",
			"INFO", "    Return information about the current client connection.", "KILL <ip:port> | <option> <value> ...", "    Kill connections.",
			"LIST [TYPE ...] [ID ...]", "    Return information about client connections.", "REPLY (ON|OFF|SKIP)", "    Control the replies sent to the current connection.",
			"SETINFO <option> <value>", "    Set client meta attr.", "SETNAME <name>", "    Assign the name <name> to the current connection."),
	})
}

const errName = redis.Error("ERR Client names cannot contain spaces, newlines or special characters.")

// plainName tells whether a name can stand in a line of CLIENT LIST.
func plainName(name []byte) bool {
	if len(name) > maxNameBytes {
		return false
	}
	for _, b := range name {
		if b < '!' || b > '~' {
			return false
		}
	}
	return true
}

func getName(t *turn) {
	if name := t.c.seen.get().name; name != "" {
		t.out.Text(name)
	} else {
		t.out.Null()
	}
}

func setName(t *turn) {
	if !plainName(t.Args[2]) {
		t.out.Fail(errName)
		return
	}
	name := string(t.Args[2])
	t.c.seen.set(func(a *about) { a.name = name })
	t.out.OK()
}

func setInfo(t *turn) {
	what, value := t.Args[2], string(t.Args[3])
	switch {
	case !plainName(t.Args[3]):
		t.out.Fail(redis.Error("ERR " + string(what) + " cannot contain spaces, newlines or special characters."))
		return
	case redis.Is(what, "LIB-NAME"):
		t.c.seen.set(func(a *about) { a.library = value })
	case redis.Is(what, "LIB-VER"):
		t.c.seen.set(func(a *about) { a.libraryVersion = value })
	default:
		t.out.Fail(redis.Error("ERR Unrecognized option '" + string(what) + "'"))
		return
	}
	t.out.OK()
}

// onOff accepts ON and OFF.
func onOff(t *turn) {
	if redis.Is(t.Args[2], "ON") || redis.Is(t.Args[2], "OFF") {
		t.out.OK()
	} else {
		t.out.Fail(redis.ErrSyntax)
	}
}

func clientReply(t *turn) {
	switch mode := t.Args[2]; {
	case redis.Is(mode, "ON"):
		t.c.silent, t.c.skip = false, 0
		t.out.OK()
	case redis.Is(mode, "OFF"):
		t.c.silent = true
	case redis.Is(mode, "SKIP"):
		if !t.c.silent {
			t.c.skip = 2 // this one is not answered either
		}
	default:
		t.out.Fail(redis.ErrSyntax)
	}
}

// line is a client in CLIENT LIST.
func (s *Server) line(c *client, now time.Time) string {
	a, subs := c.seen.get(), s.hub.counts(c)
	cmd := "NULL"
	if last := c.seen.last.Load(); last != nil {
		cmd = last.Name
	}
	flags := "N"
	if subs != [scopes]int{} {
		flags = "P"
	}
	return fmt.Sprintf("id=%d addr=%s name=%s age=%d idle=%d flags=%s db=0 keyspace=%s sub=%d psub=%d ssub=%d cmd=%s user=%s lib-name=%s lib-ver=%s resp=%d",
		c.id, c.from, a.name, int(now.Sub(c.since).Seconds()), max(0, now.UnixMilli()-c.seen.lastMS.Load())/1000, flags, a.space,
		subs[byChannel], subs[byPattern], subs[bySlot], cmd, a.user, a.library, a.libraryVersion, c.seen.version.Load())
}

// kindOf is the TYPE of a client.
func (s *Server) kindOf(c *client) string {
	if n := s.hub.counts(c); n != [scopes]int{} && resp.Version(c.seen.version.Load()) == resp.RESP2 {
		return "pubsub"
	}
	return "normal"
}

func clientList(t *turn) {
	keep, err := listFilter(t)
	if err != nil {
		t.out.Fail(err)
		return
	}
	var b strings.Builder
	now := t.s.opts.Now()
	for _, c := range t.s.clients.all() {
		if keep(c) {
			b.WriteString(t.s.line(c, now))
			b.WriteByte('\n')
		}
	}
	t.out.Verbatim(b.String())
}

// listFilter is which clients are wanted.
func listFilter(t *turn) (keep func(*client) bool, err error) {
	args := t.Args[2:]
	switch {
	case len(args) == 0:
		return func(*client) bool { return true }, nil
	case redis.Is(args[0], "TYPE") && len(args) == 2:
		kind := strings.ToLower(string(args[1]))
		if kind != "normal" && kind != "pubsub" && kind != "master" && kind != "replica" && kind != "slave" {
			return nil, redis.Error("ERR Unknown client type '" + string(args[1]) + "'")
		}
		return func(c *client) bool { return t.s.kindOf(c) == kind }, nil
	case redis.Is(args[0], "ID") && len(args) > 1:
		ids := map[uint64]bool{}
		for _, a := range args[1:] {
			id, err := strconv.ParseUint(string(a), 10, 64)
			if err != nil || id == 0 {
				return nil, redis.Error("ERR Invalid client ID")
			}
			ids[id] = true
		}
		return func(c *client) bool { return ids[c.id] }, nil
	}
	return nil, redis.ErrSyntax
}

func clientKill(t *turn) {
	args := t.Args[2:]
	if len(args) == 1 { // the old form: an address
		for _, c := range t.s.clients.all() {
			if c.from == string(args[0]) {
				t.kill(c)
				t.out.OK()
				return
			}
		}
		t.out.Fail(redis.Error("ERR No such client"))
		return
	}
	keep, err := killFilter(t, args)
	if err != nil {
		t.out.Fail(err)
		return
	}
	n := int64(0)
	for _, c := range t.s.clients.all() {
		if keep(c) {
			t.kill(c)
			n++
		}
	}
	t.out.Int(n)
}

// kill closes a connection; the client's own when it is answered.
func (t *turn) kill(c *client) {
	if c == t.c {
		c.closing = true
		return
	}
	c.conn.kill()
}

// killFilter is which clients are to be killed.
func killFilter(t *turn, args [][]byte) (func(*client) bool, error) {
	if len(args)%2 != 0 {
		return nil, redis.ErrSyntax
	}
	var all []func(*client) bool
	me := true // whether the one who asks is left alone
	for i := 0; i < len(args); i += 2 {
		value := string(args[i+1])
		switch name := args[i]; {
		case redis.Is(name, "ID"):
			id, err := strconv.ParseUint(value, 10, 64)
			if err != nil || id == 0 {
				return nil, redis.Error("ERR client-id should be greater than 0")
			}
			all = append(all, func(c *client) bool { return c.id == id })
		case redis.Is(name, "ADDR"):
			all = append(all, func(c *client) bool { return c.from == value })
		case redis.Is(name, "TYPE"):
			kind := strings.ToLower(value)
			all = append(all, func(c *client) bool { return t.s.kindOf(c) == kind })
		case redis.Is(name, "USER"):
			all = append(all, func(c *client) bool { return c.seen.get().user == value })
		case redis.Is(name, "LADDR"):
			all = append(all, func(*client) bool { return false })
		case redis.Is(name, "SKIPME"):
			switch {
			case redis.Is(args[i+1], "YES"):
				me = true
			case redis.Is(args[i+1], "NO"):
				me = false
			default:
				return nil, redis.ErrSyntax
			}
		default:
			return nil, redis.ErrSyntax
		}
	}
	return func(c *client) bool {
		if me && c == t.c {
			return false
		}
		for _, f := range all {
			if !f(c) {
				return false
			}
		}
		return true
	}, nil
}

// help answers with how a family of commands is used.
func help(name string, lines ...string) func(*turn) {
	return func(t *turn) {
		all := append([]string{name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}, lines...)
		all = append(all, "HELP", "    Print this help.")
		t.out.Array(len(all))
		for _, l := range all {
			t.out.Simple(l)
		}
	}
}
