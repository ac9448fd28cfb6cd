package serve

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/acl"
	"github.com/cleavekv/cleave/internal/redis"
)

func init() {
	handle(map[string]func(*turn){
		"acl|cat": aclCat, "acl|deluser": delUser, "acl|dryrun": dryRun, "acl|genpass": genPass, "acl|getuser": getUser,
		"acl|list": aclList, "acl|log": aclLog, "acl|setuser": setUser,
		"acl|users":  func(t *turn) { t.texts(t.s.users.Names()) },
		"acl|whoami": func(t *turn) { t.out.Text(t.c.account.User().Name) },
		"acl|help": help("ACL", "CAT [<category>]", "    List all commands that belong to <category>, or all command categories", "    when no category is specified.",
			"DELUSER <username> [<username> ...]", "    Delete a list of users.", "DRYRUN <username> <command> [<arg> ...]", "    Returns whether the user can execute the given command without executing the command.",
			"GETUSER <username>", "    Get the user's details.", "GENPASS [<bits>]", "    Generate a secure 256-bit user password. The optional `bits` argument can", "    be used to specify a different size.",
			"LIST", "    Show users details in config file format.", "LOG [<count> | RESET]", "    Show the ACL log entries.",
			"SETUSER <username> <attribute> [<attribute> ...]", "    Create or modify a user with the specified attributes.", "USERS", "    List all the registered usernames.", "WHOAMI", "    Return the current connection username."),
	})
	handleSlow(map[string]func(*turn){"auth": auth})
}

// texts answers with a list.
func (t *turn) texts(list []string) {
	t.out.Array(len(list))
	for _, s := range list {
		t.out.Text(s)
	}
}

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

// How long a client waits after a wrong password: twice as long each time.
const (
	firstPenalty = 10 * time.Millisecond
	maxPenalty   = 2 * time.Second
)

// authenticate makes the connection one of a user.
func (t *turn) authenticate(name string, password []byte) error {
	a, err := t.s.users.Auth(name, password)
	if err != nil {
		t.s.denied.note(t, "auth", "AUTH", name)
		penalty := min(maxPenalty, firstPenalty<<min(t.c.failures, 16))
		t.c.failures++
		select {
		case <-time.After(penalty):
		case <-t.ctx.Done():
		}
		return redis.Error("WRONGPASS invalid username-password pair or user is disabled.")
	}
	t.c.failures = 0
	t.c.seen.known.Store(true)
	t.c.become(a)
	return nil
}

// permitted refuses what a user may not do.
func (s *Server) permitted(c *client, u *acl.User, spec *redis.Spec, args [][]byte) error {
	reason, object := refusal(u, spec, args)
	if reason == "" {
		return nil
	}
	s.denied.note(&turn{s: s, c: c}, reason, object, u.Name)
	switch reason {
	case "command":
		return redis.Error("NOPERM this user has no permissions to run the '" + spec.Name + "' command")
	case "key":
		return redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments")
	}
	return redis.Error("NOPERM this user has no permissions to access one of the channels used as arguments")
}

// refusal is why a user may not do something, and what that is; empty if it may.
func refusal(u *acl.User, spec *redis.Spec, args [][]byte) (reason, object string) {
	if !u.MayRun(spec) && spec.Flags&redis.NoAuth == 0 {
		return "command", spec.Name
	}
	access := acl.Read
	if spec.Flags&redis.Write != 0 {
		access = acl.Write
		if spec.Flags&redis.ReadOnly != 0 || !blind[spec.Name] {
			access |= acl.Read
		}
	}
	at, _ := spec.KeysOf(args)
	for _, i := range at {
		if !u.MayKey(args[i], access) {
			return "key", string(args[i])
		}
	}
	channels, pattern := channelsOf(spec, args)
	for _, name := range channels {
		if !u.MayChannel(name, pattern) {
			return "channel", string(name)
		}
	}
	return "", ""
}

// blind are the commands that write without telling anything about what was there.
var blind = map[string]bool{"set": true, "setex": true, "psetex": true, "mset": true, "del": true, "unlink": true, "hset": true, "hmset": true, "expire": true}

// channelsOf are the channels that a request names.
func channelsOf(spec *redis.Spec, args [][]byte) (names [][]byte, pattern bool) {
	switch spec.Name {
	case "subscribe", "ssubscribe":
		return args[1:], false
	case "psubscribe":
		return args[1:], true
	case "publish", "spublish":
		return args[1:2], false
	}
	return nil, false
}

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
	now := t.s.opts.Now()
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

func setUser(t *turn) {
	var rules []string
	for _, a := range t.Args[3:] {
		rules = append(rules, string(a))
	}
	if err := t.s.users.Set(string(t.Args[2]), rules...); err != nil {
		t.out.Fail(redis.Error("ERR " + strings.TrimPrefix(err.Error(), "acl: ")))
		return
	}
	t.out.OK()
}

func delUser(t *turn) {
	n := int64(0)
	for _, a := range t.Args[2:] {
		ok, err := t.s.users.Remove(string(a))
		if errors.Is(err, acl.ErrDefault) {
			t.out.Fail(redis.Error("ERR The 'default' user cannot be removed"))
			return
		}
		if !ok {
			continue
		}
		n++
		for _, c := range t.s.clients.all() {
			if c.seen.get().user == string(a) {
				t.kill(c)
			}
		}
	}
	t.out.Int(n)
}

func getUser(t *turn) {
	u := t.s.users.Get(string(t.Args[2]))
	if u == nil {
		t.out.Null()
		return
	}
	t.out.Map(6)
	t.out.Text("flags")
	t.texts(u.Flags())
	t.out.Text("passwords")
	t.texts(u.Passwords())
	for _, p := range [][2]string{{"commands", u.Commands()}, {"keys", u.Keys()}, {"channels", u.Channels()}} {
		t.out.Text(p[0])
		t.out.Text(p[1])
	}
	t.out.Text("selectors")
	t.out.Array(0)
}

func aclList(t *turn) {
	var lines []string
	for _, name := range t.s.users.Names() {
		if u := t.s.users.Get(name); u != nil {
			lines = append(lines, u.String())
		}
	}
	t.texts(lines)
}

func aclCat(t *turn) {
	switch len(t.Args) {
	case 2:
		t.texts(redis.Category(^uint32(0)).Names())
	case 3:
		c, ok := redis.CategoryNamed(strings.ToLower(string(t.Args[2])))
		if !ok {
			t.out.Fail(redis.Error("ERR Unknown category '" + string(t.Args[2]) + "'"))
			return
		}
		var names []string
		for _, s := range redis.All() {
			if s.Categories()&c != 0 {
				names = append(names, s.Name)
			}
		}
		t.texts(names)
	default:
		t.out.Fail(redis.Arity("acl|cat"))
	}
}

func genPass(t *turn) {
	bits := 256
	if len(t.Args) == 3 {
		var err error
		if bits, err = strconv.Atoi(string(t.Args[2])); err != nil || bits < 1 || bits > 4096 {
			t.out.Fail(redis.Error("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"))
			return
		}
	}
	b := make([]byte, (bits+7)/8)
	_, _ = rand.Read(b) // never fails
	t.out.Text(hex.EncodeToString(b)[:(bits+3)/4])
}

func dryRun(t *turn) {
	u := t.s.users.Get(string(t.Args[2]))
	if u == nil {
		t.out.Fail(redis.Error("ERR User '" + string(t.Args[2]) + "' not found"))
		return
	}
	args := t.Args[3:]
	spec, err := redis.Lookup(args)
	if err != nil {
		t.out.Fail(redis.Error("ERR Command '" + string(bytes.ToLower(args[0])) + "' not found"))
		return
	}
	if err := spec.Check(args); err != nil {
		t.out.Fail(err)
		return
	}
	switch reason, object := refusal(u, spec, args); reason {
	case "":
		t.out.OK()
	case "command":
		t.out.Text("This user has no permissions to run the '" + object + "' command")
	default:
		t.out.Text("This user has no permissions to access the '" + object + "' " + reason)
	}
}
