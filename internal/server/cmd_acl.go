package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/server/pubsub"
	"github.com/cleavekv/cleave/internal/server/redis"
)

func init() {
	registerHandlers(map[string]func(*call){
		"acl|cat": handleACLCat, "acl|dryrun": handleACLDryRun, "acl|genpass": handleACLGenPass, "acl|getuser": handleACLGetUser, "acl|list": handleACLList,
		"acl|users":  func(t *call) { t.writeTexts(t.s.users.Names()) },
		"acl|whoami": func(t *call) { t.out.Text(t.c.account.User().Name) },
		"acl|help": newHelpHandler("ACL", "CAT [<category>]", "    List all commands that belong to <category>, or all command categories", "    when no category is specified.",
			"DELUSER <username> [<username> ...]", "    Delete a list of users.", "DRYRUN <username> <command> [<arg> ...]", "    Returns whether the user can execute the given command without executing the command.",
			"GETUSER <username>", "    Get the user's details.", "GENPASS [<bits>]", "    Generate a secure 256-bit user password. The optional `bits` argument can", "    be used to specify a different size.",
			"LIST", "    Show users details in config file format.", "LOAD", "    Take the users as they are kept in the store.", "LOG [<count> | RESET]", "    Show the ACL log entries.",
			"SAVE", "    Accepted: a user is kept when it is changed.", "SETUSER <username> <attribute> [<attribute> ...]", "    Create or modify a user with the specified attributes.", "USERS", "    List all the registered usernames.", "WHOAMI", "    Return the current connection username."),
	})
	registerBlockingHandlers(map[string]func(*call){"acl|setuser": handleACLSetUser, "acl|deluser": handleACLDelUser, "acl|save": handleNoOp, "acl|load": handleACLLoad})
}

// writeTexts answers with a list.
func (t *call) writeTexts(list []string) {
	t.out.Array(len(list))
	for _, s := range list {
		t.out.Text(s)
	}
}

func handleACLSetUser(t *call) {
	var rules []string
	for _, a := range t.Args[3:] {
		rules = append(rules, string(a))
	}
	name := string(t.Args[2])
	t.s.usersMu.Lock()
	defer t.s.usersMu.Unlock()
	if err := t.s.users.Set(name, rules...); err != nil {
		t.out.Fail(redis.Error("ERR " + strings.TrimPrefix(err.Error(), "acl: ")))
		return
	}
	t.closeRevoked()
	if err := t.s.keepUser(t.ctx, name); err != nil {
		t.out.Fail(err)
		return
	}
	t.out.OK()
}

// closeRevoked closes clients that listen to what their user may not, or whose user is gone, as Redis does:
// else they would go on hearing it. It comes after the users were changed.
func (t *call) closeRevoked() {
	for _, c := range t.s.clients.List() {
		if u := t.s.users.Get(c.Status.LoadInfo().User); u == nil || t.s.hasForbiddenSubscription(c, u) {
			t.killClient(c)
		}
	}
}

// hasForbiddenSubscription reports whether a client listens to anything that a user may not.
func (s *Server) hasForbiddenSubscription(c *conn.Conn, u *acl.User) bool {
	if u.IsUnlimited() {
		return false
	}
	for scope := range pubsub.ScopeCount {
		for _, name := range s.hub.ListNames(c, scope) {
			if !u.CanAccessChannel([]byte(name), scope == pubsub.ByPattern) {
				return true
			}
		}
	}
	return false
}

// keepUser stores a user as it is now, for the next start. The caller has held keeping since before
// it changed the user: the last change is the last one stored, and the user is not loaded
// in an older state meanwhile.
func (s *Server) keepUser(ctx context.Context, name string) error {
	rules := ""
	if u := s.users.Get(name); u != nil {
		rules = u.Rules()
	}
	if err := s.node.PutUser(ctx, name, rules); err != nil {
		return redis.Error("ERR the user was changed, but may be as before after a restart: " + err.Error())
	}
	return nil
}

// LoadUsers takes the users as they are kept in the store. Without it there is the default
// one alone. It is for before Serve: a server that did not know the permissions would let
// every client do anything. A user whose rules it does not understand may do nothing. The
// password of the settings holds whatever is kept, as it does after a restart.
func (s *Server) LoadUsers(ctx context.Context) error {
	s.usersMu.Lock()
	defer s.usersMu.Unlock()
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
	if s.unsavedPassword != "" {
		if kept[acl.DefaultUser] == "" {
			kept[acl.DefaultUser] = acl.NewTable().Get(acl.DefaultUser).Rules()
		}
		kept[acl.DefaultUser] += " resetpass " + acl.PasswordRule(s.unsavedPassword)
	}
	return s.users.ReplaceAll(kept)
}

func handleACLLoad(t *call) {
	if err := t.s.LoadUsers(t.ctx); err != nil {
		t.out.Fail(redis.Error("ERR " + strings.TrimPrefix(err.Error(), "acl: ")))
		return
	}
	t.closeRevoked()
	t.out.OK()
}

func handleACLDelUser(t *call) {
	t.s.usersMu.Lock()
	defer t.s.usersMu.Unlock()
	n := int64(0)
	for _, a := range t.Args[2:] {
		ok, err := t.s.users.Remove(string(a))
		if errors.Is(err, acl.ErrDefaultUser) {
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
		for _, c := range t.s.clients.List() {
			if c.Status.LoadInfo().User == string(a) {
				t.killClient(c)
			}
		}
	}
	t.out.Int(n)
}

func handleACLGetUser(t *call) {
	u := t.s.users.Get(string(t.Args[2]))
	if u == nil {
		t.out.Null()
		return
	}
	t.out.Map(6)
	t.out.Text("flags")
	t.writeTexts(u.Flags())
	t.out.Text("passwords")
	t.writeTexts(u.PasswordHashes())
	for _, p := range [][2]string{{"commands", u.CommandRules()}, {"keys", u.KeyRules()}, {"channels", u.ChannelRules()}} {
		t.out.Text(p[0])
		t.out.Text(p[1])
	}
	t.out.Text("selectors")
	t.out.Array(0)
}

func handleACLList(t *call) {
	var lines []string
	for _, name := range t.s.users.Names() {
		if u := t.s.users.Get(name); u != nil {
			lines = append(lines, u.String())
		}
	}
	t.writeTexts(lines)
}

func handleACLCat(t *call) {
	switch len(t.Args) {
	case 2:
		t.writeTexts(redis.Category(^uint32(0)).Names())
	case 3:
		c, ok := redis.ParseCategory(strings.ToLower(string(t.Args[2])))
		if !ok {
			t.out.Fail(redis.Error(fmt.Sprintf("ERR Unknown category '%.128s'", redis.Printed(t.Args[2]))))
			return
		}
		var names []string
		for _, s := range redis.AllSpecs() {
			if s.Categories()&c != 0 {
				names = append(names, s.Name)
			}
		}
		t.writeTexts(names)
	default:
		t.out.Fail(redis.SubcommandArity(&t.Request))
	}
}

func handleACLGenPass(t *call) {
	bits := 256
	if len(t.Args) > 3 {
		t.out.Fail(redis.SubcommandArity(&t.Request))
		return
	}
	if len(t.Args) == 3 {
		n, ok := redis.Integer(t.Args[2])
		if !ok {
			t.out.Fail(redis.ErrNotInteger)
			return
		}
		if bits = int(n); bits < 1 || bits > 4096 {
			t.out.Fail(redis.Error("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"))
			return
		}
	}
	b := make([]byte, (bits+7)/8)
	_, _ = rand.Read(b) // never fails
	t.out.Text(hex.EncodeToString(b)[:(bits+3)/4])
}

func handleACLDryRun(t *call) {
	u := t.s.users.Get(string(t.Args[2]))
	if u == nil {
		t.out.Fail(redis.Error("ERR User '" + string(t.Args[2]) + "' not found"))
		return
	}
	args := t.Args[3:]
	spec, err := redis.LookupRequest(args)
	if err != nil {
		t.out.Fail(redis.Error("ERR Command '" + redis.Printed(args[0]) + "' not found"))
		return
	}
	if err := spec.CheckArity(args); err != nil {
		t.out.Fail(err)
		return
	}
	switch reason, object := checkACL(u, spec, args); reason {
	case "":
		t.out.OK()
	case "command":
		t.out.Text("This user has no permissions to run the '" + object + "' command")
	default:
		t.out.Text("This user has no permissions to access the '" + object + "' " + reason)
	}
}

func init() { registerHandlers(map[string]func(*call){"acl|log": handleACLLog}) }

func handleACLLog(t *call) {
	n := 10
	if len(t.Args) > 3 {
		t.out.Fail(redis.SubcommandArity(&t.Request))
		return
	}
	if len(t.Args) == 3 {
		if redis.IsKeyword(t.Args[2], "RESET") {
			t.s.deniedLog.mu.Lock()
			t.s.deniedLog.entries = nil
			t.s.deniedLog.mu.Unlock()
			t.out.OK()
			return
		}
		most, ok := redis.Integer(t.Args[2])
		if !ok {
			t.out.Fail(redis.ErrNotInteger)
			return
		}
		n = int(max(0, most))
	}
	t.s.deniedLog.mu.Lock()
	list := slices.Clone(t.s.deniedLog.entries[:min(n, len(t.s.deniedLog.entries))])
	t.s.deniedLog.mu.Unlock()
	t.out.Array(len(list))
	for _, e := range list {
		t.out.Map(7)
		t.out.Text("count")
		t.out.Int(int64(e.count))
		for _, p := range [][2]string{{"reason", e.reason}, {"context", e.context}, {"object", e.object}, {"username", e.user},
			{"age-seconds", fmt.Sprintf("%.3f", t.s.opts.Now().Sub(e.first).Seconds())}, {"client-info", e.clientInfo}} {
			t.out.Text(p[0])
			t.out.Text(p[1])
		}
	}
}
