package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/acl"
	"github.com/cleavekv/cleave/internal/redis"
)

func init() {
	handle(map[string]func(*turn){
		"acl|cat": aclCat, "acl|dryrun": dryRun, "acl|genpass": genPass, "acl|getuser": getUser, "acl|list": aclList,
		"acl|users":  func(t *turn) { t.texts(t.s.users.Names()) },
		"acl|whoami": func(t *turn) { t.out.Text(t.c.account.User().Name) },
		"acl|help": help("ACL", "CAT [<category>]", "    List all commands that belong to <category>, or all command categories", "    when no category is specified.",
			"DELUSER <username> [<username> ...]", "    Delete a list of users.", "DRYRUN <username> <command> [<arg> ...]", "    Returns whether the user can execute the given command without executing the command.",
			"GETUSER <username>", "    Get the user's details.", "GENPASS [<bits>]", "    Generate a secure 256-bit user password. The optional `bits` argument can", "    be used to specify a different size.",
			"LIST", "    Show users details in config file format.", "LOAD", "    Take the users as they are kept in the store.", "LOG [<count> | RESET]", "    Show the ACL log entries.",
			"SAVE", "    Accepted: a user is kept when it is changed.", "SETUSER <username> <attribute> [<attribute> ...]", "    Create or modify a user with the specified attributes.", "USERS", "    List all the registered usernames.", "WHOAMI", "    Return the current connection username."),
	})
	handleSlow(map[string]func(*turn){"acl|setuser": setUser, "acl|deluser": delUser, "acl|save": accept, "acl|load": aclLoad})
}

// texts answers with a list.
func (t *turn) texts(list []string) {
	t.out.Array(len(list))
	for _, s := range list {
		t.out.Text(s)
	}
}

func setUser(t *turn) {
	var rules []string
	for _, a := range t.Args[3:] {
		rules = append(rules, string(a))
	}
	name := string(t.Args[2])
	t.s.keeping.Lock()
	defer t.s.keeping.Unlock()
	if err := t.s.users.Set(name, rules...); err != nil {
		t.out.Fail(redis.Error("ERR " + strings.TrimPrefix(err.Error(), "acl: ")))
		return
	}
	if err := t.s.keepUser(t.ctx, name); err != nil {
		t.out.Fail(err)
		return
	}
	t.out.OK()
}

// keepUser keeps a user as it is now, over a restart. Who calls it holds keeping, since before
// it has changed the user: the last one to do that is the last one to keep it, and nobody
// loads the user as it was meanwhile.
func (s *Server) keepUser(ctx context.Context, name string) error {
	rules := ""
	if u := s.users.Get(name); u != nil {
		rules = u.Rules()
	}
	if err := s.node.KeepUser(ctx, name, rules); err != nil {
		return redis.Error("ERR the user was changed, but may be as before after a restart: " + err.Error())
	}
	return nil
}

// LoadUsers takes the users as they are kept in the store. Without it there is the default
// one alone. It is for before Serve: a server that did not know who may do what would let
// anybody do anything. A user whose rules it does not understand may do nothing. The
// password of the settings holds whatever is kept, as it does after a restart.
func (s *Server) LoadUsers(ctx context.Context) error {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	kept, err := s.node.Users(ctx)
	if err != nil {
		return err
	}
	for name, rules := range kept {
		if err := acl.CheckRules(rules); err != nil {
			s.opts.Log.Warn("a user is off, since its rules are not understood: say them again, with ACL SETUSER and reset", "user", name, "error", err)
			kept[name] = "off"
		}
	}
	if s.unkept != "" {
		if kept[acl.DefaultName] == "" {
			kept[acl.DefaultName] = acl.NewTable().Get(acl.DefaultName).Rules()
		}
		kept[acl.DefaultName] += " resetpass " + acl.PasswordRule(s.unkept)
	}
	return s.users.Replace(kept)
}

func aclLoad(t *turn) {
	if err := t.s.LoadUsers(t.ctx); err != nil {
		t.out.Fail(redis.Error("ERR " + strings.TrimPrefix(err.Error(), "acl: ")))
		return
	}
	t.out.OK()
}

func delUser(t *turn) {
	t.s.keeping.Lock()
	defer t.s.keeping.Unlock()
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
		if err := t.s.keepUser(t.ctx, string(a)); err != nil {
			t.out.Fail(err)
			return
		}
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
