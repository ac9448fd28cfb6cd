package server

import (
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/server/pubsub"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
)

func init() {
	registerHandlers(map[string]func(*call){
		"client|id":       func(t *call) { t.out.Int(int64(t.c.ID)) },
		"client|getname":  handleClientGetName,
		"client|setname":  handleClientSetName,
		"client|setinfo":  handleClientSetInfo,
		"client|info":     func(t *call) { t.out.Verbatim(t.s.formatClient(&t.c.Conn, t.s.opts.Now()) + "\n") },
		"client|list":     handleClientList,
		"client|reply":    handleClientReply,
		"client|no-evict": handleOnOff,
		"client|no-touch": handleOnOff,
		"client|help": newHelpHandler("CLIENT", "GETNAME", "    Return the name of the current connection.", "ID", "    Return the ID of the current connection.",
			"INFO", "    Return information about the current client connection.", "KILL <ip:port> | <option> <value> ...", "    Kill connections.",
			"LIST [TYPE ...] [ID ...]", "    Return information about client connections.", "REPLY (ON|OFF|SKIP)", "    Control the replies sent to the current connection.",
			"SETINFO <option> <value>", "    Set client meta attr.", "SETNAME <name>", "    Assign the name <name> to the current connection."),
	})
	registerBlockingHandlers(map[string]func(*call){"client|kill": handleClientKill}) // the audit log is synced
}

const errClientName = redis.Error("ERR Client names cannot contain spaces, newlines or special characters.")

// isPlainName reports whether a name can stand in a line of CLIENT LIST.
func isPlainName(name []byte) bool {
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

func handleClientGetName(t *call) {
	if name := t.c.Status.LoadInfo().Name; name != "" {
		t.out.Text(name)
	} else {
		t.out.Null()
	}
}

func handleClientSetName(t *call) {
	if !isPlainName(t.Args[2]) {
		t.out.Fail(errClientName)
		return
	}
	name := string(t.Args[2])
	t.c.Status.UpdateInfo(func(a *conn.Info) { a.Name = name })
	t.out.OK()
}

func handleClientSetInfo(t *call) {
	what, value := t.Args[2], string(t.Args[3])
	switch {
	case !isPlainName(t.Args[3]):
		t.out.Fail(redis.Error("ERR " + string(what) + " cannot contain spaces, newlines or special characters."))
		return
	case redis.IsKeyword(what, "LIB-NAME"):
		t.c.Status.UpdateInfo(func(a *conn.Info) { a.Library = value })
	case redis.IsKeyword(what, "LIB-VER"):
		t.c.Status.UpdateInfo(func(a *conn.Info) { a.LibraryVersion = value })
	default:
		t.out.Fail(redis.Error("ERR Unrecognized option '" + string(what) + "'"))
		return
	}
	t.out.OK()
}

// handleOnOff accepts ON and OFF.
func handleOnOff(t *call) {
	if redis.IsKeyword(t.Args[2], "ON") || redis.IsKeyword(t.Args[2], "OFF") {
		t.out.OK()
	} else {
		t.out.Fail(redis.ErrSyntax)
	}
}

func handleClientReply(t *call) {
	switch mode := t.Args[2]; {
	case redis.IsKeyword(mode, "ON"):
		t.c.RepliesOff, t.c.SkipReplies = false, 0
		t.out.OK()
	case redis.IsKeyword(mode, "OFF"):
		t.c.RepliesOff = true
	case redis.IsKeyword(mode, "SKIP"):
		if !t.c.RepliesOff {
			t.c.SkipReplies = 2 // this one is not answered either
		}
	default:
		t.out.Fail(redis.ErrSyntax)
	}
}

// clientKind is the TYPE of a client.
func (s *Server) clientKind(c *conn.Conn) string {
	if n := s.hub.CountSubscriptions(c); n != [pubsub.ScopeCount]int{} && resp.Version(c.Status.Protocol.Load()) == resp.RESP2 {
		return "pubsub"
	}
	return "normal"
}

func handleClientList(t *call) {
	keep, err := parseClientListFilter(t)
	if err != nil {
		t.out.Fail(err)
		return
	}
	var b strings.Builder
	now := t.s.opts.Now()
	for _, c := range t.s.clients.List() {
		if keep(c) {
			b.WriteString(t.s.formatClient(c, now))
			b.WriteByte('\n')
		}
	}
	t.out.Verbatim(b.String())
}

// clientKinds are the types that a client may be asked for by.
var clientKinds = map[string]bool{"normal": true, "pubsub": true, "master": true, "replica": true, "slave": true}

// parseClientListFilter is which clients are wanted.
func parseClientListFilter(t *call) (keep func(*conn.Conn) bool, err error) {
	args := t.Args[2:]
	switch {
	case len(args) == 0:
		return func(*conn.Conn) bool { return true }, nil
	case redis.IsKeyword(args[0], "TYPE") && len(args) == 2:
		kind := strings.ToLower(string(args[1]))
		if !clientKinds[kind] {
			return nil, redis.Error("ERR Unknown client type '" + redis.Printed(args[1]) + "'")
		}
		return func(c *conn.Conn) bool { return t.s.clientKind(c) == kind }, nil
	case redis.IsKeyword(args[0], "ID") && len(args) > 1:
		ids := map[uint64]bool{}
		for _, a := range args[1:] {
			id, ok := redis.Integer(a)
			if !ok {
				return nil, redis.Error("ERR Invalid client ID")
			}
			ids[uint64(id)] = true
		}
		return func(c *conn.Conn) bool { return ids[c.ID] }, nil
	}
	return nil, redis.ErrSyntax
}

func handleClientKill(t *call) {
	args := t.Args[2:]
	if len(args) == 1 { // the old form: an address
		for _, c := range t.s.clients.List() {
			if c.RemoteAddr == string(args[0]) {
				t.killClient(c)
				t.out.OK()
				return
			}
		}
		t.out.Fail(redis.Error("ERR No such client"))
		return
	}
	keep, err := parseClientKillFilter(t, args)
	if err != nil {
		t.out.Fail(err)
		return
	}
	n := int64(0)
	for _, c := range t.s.clients.List() {
		if keep(c) {
			t.killClient(c)
			n++
		}
	}
	t.out.Int(n)
}

// killClient closes a connection; the client's own when it is answered.
func (t *call) killClient(c *conn.Conn) {
	if c == &t.c.Conn {
		c.Closing = true
		return
	}
	c.CloseConn()
}

// parseClientKillFilter is which clients are to be killed.
func parseClientKillFilter(t *call, args [][]byte) (func(*conn.Conn) bool, error) {
	if len(args)%2 != 0 {
		return nil, redis.ErrSyntax
	}
	var all []func(*conn.Conn) bool
	me := true // whether the calling client is left alone
	for i := 0; i < len(args); i += 2 {
		value := string(args[i+1])
		switch name := args[i]; {
		case redis.IsKeyword(name, "ID"):
			id, err := strconv.ParseUint(value, 10, 64)
			if err != nil || id == 0 {
				return nil, redis.Error("ERR client-id should be greater than 0")
			}
			all = append(all, func(c *conn.Conn) bool { return c.ID == id })
		case redis.IsKeyword(name, "ADDR"):
			all = append(all, func(c *conn.Conn) bool { return c.RemoteAddr == value })
		case redis.IsKeyword(name, "TYPE"):
			kind := strings.ToLower(value)
			if !clientKinds[kind] {
				return nil, redis.Error("ERR Unknown client type '" + redis.Printed(args[i+1]) + "'")
			}
			all = append(all, func(c *conn.Conn) bool { return t.s.clientKind(c) == kind })
		case redis.IsKeyword(name, "USER"):
			if t.s.users.Get(value) == nil {
				return nil, redis.Error("ERR No such user '" + redis.Printed(args[i+1]) + "'")
			}
			all = append(all, func(c *conn.Conn) bool { return c.Status.LoadInfo().User == value })
		case redis.IsKeyword(name, "LADDR"):
			all = append(all, func(*conn.Conn) bool { return false })
		case redis.IsKeyword(name, "SKIPME"):
			switch {
			case redis.IsKeyword(args[i+1], "YES"):
				me = true
			case redis.IsKeyword(args[i+1], "NO"):
				me = false
			default:
				return nil, redis.ErrSyntax
			}
		default:
			return nil, redis.ErrSyntax
		}
	}
	return func(c *conn.Conn) bool {
		if me && c == &t.c.Conn {
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

// newHelpHandler answers with how a family of commands is used.
func newHelpHandler(name string, lines ...string) func(*call) {
	return func(t *call) {
		all := append([]string{name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}, lines...)
		all = append(all, "HELP", "    Print this help.")
		t.out.Array(len(all))
		for _, l := range all {
			t.out.Simple(l)
		}
	}
}
