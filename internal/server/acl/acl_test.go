package acl

import (
	"errors"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/server/redis"
)

func newTestUser(t *testing.T, rules string) *User {
	t.Helper()
	table := NewTable()
	if err := table.Set("u", strings.Fields(rules)...); err != nil {
		t.Fatal(err)
	}
	return table.Get("u")
}

func TestAUserMayDoWhatItsRulesSayAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		rules string
		yes   string // commands
		no    string
	}{
		{"", "", "get set keys config|get"},
		{"+@all", "get set keys config|get flushall", ""},
		{"+@all -@dangerous", "get set", "keys config|get flushall"},
		{"+@read", "get mget hgetall", "set del config|get"},
		{"+@all -@write", "get", "set del hset"},
		{"+get -get +set", "set", "get"},
		{"+config|get", "config|get", "config|set"},
		{"+config", "config|get config|set", "get"},
		{"+@hash -hset", "hget hgetall", "hset get"},
		{"allcommands nocommands", "", "get"},
	} {
		u := newTestUser(t, c.rules)
		for _, name := range strings.Fields(c.yes) {
			if !u.CanRun(redis.SpecByName(name)) {
				t.Errorf("%q refuses %s", c.rules, name)
			}
		}
		for _, name := range strings.Fields(c.no) {
			if u.CanRun(redis.SpecByName(name)) {
				t.Errorf("%q lets %s pass", c.rules, name)
			}
		}
	}
}

func TestKeysAndChannelsAreThoseOfThePatterns(t *testing.T) {
	u := newTestUser(t, "~app:* %R~shared:* %W~out:? &news &w*")
	for _, c := range []struct {
		key    string
		access Access
		want   bool
	}{
		{"app:1", Read | Write, true}, {"shared:1", Read, true}, {"shared:1", Write, false}, {"out:1", Write, true},
		{"out:1", Read, false}, {"out:12", Write, false}, {"other", Read, false}, {"app", Read, false},
	} {
		if got := u.CanAccessKey([]byte(c.key), c.access); got != c.want {
			t.Errorf("%s %d: %v", c.key, c.access, got)
		}
	}
	for name, want := range map[string]bool{"news": true, "weather": true, "x": false} {
		if u.CanAccessChannel([]byte(name), false) != want {
			t.Errorf("channel %s", name)
		}
	}
	if !u.CanAccessChannel([]byte("w*"), true) || u.CanAccessChannel([]byte("we*"), true) {
		t.Error("a pattern of channels must be one of the user's")
	}
}

func TestWrongRulesChangeNothing(t *testing.T) {
	table := NewTable()
	before := table.Get(DefaultUser).String()
	for _, rules := range []string{"off nosuch", "-@all +nosuch", "resetkeys +@nosuch", "off #abc", "off <unknown", "~x", "%X~a", "%~a", "+"} {
		var bad *RuleError
		if err := table.Set(DefaultUser, strings.Fields(rules)...); !errors.As(err, &bad) {
			t.Errorf("%q: %v", rules, err)
		}
	}
	for _, rule := range []string{"~a b", "%R~a\tb", "&a b", "~a +@all", "&a\u0085nopass", "~a\x00"} {
		var bad *RuleError
		if err := table.Set(DefaultUser, "resetkeys", rule); !errors.As(err, &bad) {
			t.Errorf("%q: %v", rule, err)
		}
	}
	if after := table.Get(DefaultUser).String(); after != before {
		t.Errorf("it was %s and is %s", before, after)
	}
}

func TestOnlyWhoKnowsThePasswordBecomesAUserThatIsOn(t *testing.T) {
	table := NewTable()
	auth := func(name, password string) bool {
		_, err := table.Authenticate(name, []byte(password))
		return err == nil
	}
	if !auth(DefaultUser, "anything") || auth("nobody", "") {
		t.Error("the default user takes any password, and nobody is nobody")
	}
	if err := table.Set("u", "on", ">one", ">two", "+@all"); err != nil {
		t.Fatal(err)
	}
	if !auth("u", "one") || !auth("u", "two") || auth("u", "three") || auth("u", "") {
		t.Error("passwords")
	}
	if err := table.Set("u", "<one"); err != nil || auth("u", "one") || !auth("u", "two") {
		t.Error("one was removed", err)
	}
	a, _ := table.Authenticate("u", []byte("two"))
	if err := table.Set("u", "off"); err != nil || auth("u", "two") {
		t.Error("it is off", err)
	}
	if strings.Contains(table.Get("u").String(), "two") {
		t.Error("a password is told")
	}
	if ok, err := table.Remove("u"); !ok || err != nil || a.User().CanRun(redis.SpecByName("get")) {
		t.Error("who was removed may still do something", err)
	}
	if _, err := table.Remove(DefaultUser); !errors.Is(err, ErrDefaultUser) {
		t.Error(err)
	}
}

func TestReplaceIsAllOrNothing(t *testing.T) {
	table := NewTable()
	for _, name := range []string{"gone", "kept"} {
		if err := table.Set(name, "on", ">x", "+@all", "~*"); err != nil {
			t.Fatal(err)
		}
	}
	gone, _ := table.Authenticate("gone", []byte("x"))
	kept, _ := table.Authenticate("kept", []byte("x"))
	if err := table.ReplaceAll(map[string]string{"kept": "off", "bad": "nosuch"}); err == nil || !gone.User().IsOn || !kept.User().IsOn {
		t.Error("a rule that is none has changed something", err)
	}
	rules := map[string]string{"kept": "on nopass +get ~a*", "new": "on"}
	if err := table.ReplaceAll(rules); err != nil {
		t.Fatal(err)
	}
	if gone.User().IsOn || !kept.User().NoPass || kept.User().CanRun(redis.SpecByName("set")) || table.Get("new") == nil || table.Get("gone") != nil {
		t.Error("the users are not those that were given")
	}
	if d := table.Get(DefaultUser); !d.IsOn || !d.NoPass || !d.IsUnlimited() {
		t.Errorf("the default user is %v", d)
	}
}

// The rules of a user, applied again, make the same user.
func TestALineOfListMakesTheSameUser(t *testing.T) {
	for _, rules := range []string{"on nopass ~* &* +@all", "off >x ~a %R~b +@read -get &c", "+config|get", "on +@all -@dangerous +keys ~*"} {
		line := newTestUser(t, rules).String()
		again := newTestUser(t, strings.TrimPrefix(line, "user u "))
		if again.String() != line {
			t.Errorf("%q became %q", line, again.String())
		}
		if err := CheckRules(again.Rules()); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// What may have been meant in another way is no user's rules.
func TestOnlyTheRulesOfAUserAreUnderstood(t *testing.T) {
	for _, text := range []string{"", "on ~a b resetchannels -@all", "on ~a nopass resetchannels -@all", "on ~a +@all resetchannels -@all +get", "on  ~a resetchannels -@all"} {
		if CheckRules(text) == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
