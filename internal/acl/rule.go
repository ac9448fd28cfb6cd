package acl

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/cleavekv/cleave/internal/redis"
)

// RuleError is a rule that is none.
type RuleError struct{ Rule, Reason string }

// Error is what Redis says.
func (e *RuleError) Error() string {
	return fmt.Sprintf("Error in ACL SETUSER modifier '%s': %s", e.Rule, e.Reason)
}

// apply changes a user by a rule.
func (u *User) apply(rule string) error {
	bad := func(reason string) error { return &RuleError{rule, reason} }
	switch lower := strings.ToLower(rule); lower {
	case "on", "off":
		u.On = lower == "on"
		return nil
	case "nopass":
		u.NoPass = true
		clear(u.passwords)
		return nil
	case "resetpass":
		u.NoPass = false
		clear(u.passwords)
		return nil
	case "allkeys":
		u.keys = []keyPattern{{"*", Read | Write}}
		return nil
	case "resetkeys":
		u.keys = nil
		return nil
	case "allchannels":
		u.channels = []string{"*"}
		return nil
	case "resetchannels":
		u.channels = nil
		return nil
	case "allcommands", "nocommands", "+@all", "-@all":
		u.allow(lower == "allcommands" || lower == "+@all")
		return nil
	case "sanitize-payload", "skip-sanitize-payload", "clearselectors":
		return nil // nothing here depends on it
	case "reset":
		*u = *newUser(u.Name)
		return nil
	case "":
		return bad("Syntax error")
	}
	switch rule[0] {
	case '>', '<', '#', '!':
		return u.password(rule, bad)
	case '~', '%':
		return u.key(rule, bad)
	case '&':
		if spaced(rule) {
			return bad("Syntax error")
		}
		if !slices.Contains(u.channels, rule[1:]) {
			u.channels = append(u.channels, rule[1:])
		}
		return nil
	case '+', '-':
		return u.command(strings.ToLower(rule), bad)
	}
	return bad("Syntax error")
}

// spaced tells whether a rule cannot be one word among others: see User.Rules.
func spaced(rule string) bool {
	return strings.ContainsFunc(rule, func(r rune) bool { return r == 0 || unicode.IsSpace(r) })
}

// CheckRules refuses a text that is the Rules of no user.
func CheckRules(text string) error {
	u := newUser("")
	for _, rule := range strings.Fields(text) {
		if err := u.apply(rule); err != nil {
			return err
		}
	}
	if u.Rules() != text {
		return errors.New("acl: a user who is made by these rules would have them in other words")
	}
	return nil
}

// password adds or removes a password.
func (u *User) password(rule string, bad func(string) error) error {
	hash := rule[1:]
	if rule[0] == '>' || rule[0] == '<' {
		hash = hashOf([]byte(rule[1:]))
	} else if b, err := hex.DecodeString(hash); err != nil || len(b) != 32 || hash != strings.ToLower(hash) {
		return bad("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")
	}
	if rule[0] == '>' || rule[0] == '#' {
		u.passwords[hash], u.NoPass = true, false
		return nil
	}
	if !u.passwords[hash] {
		return bad("The password you are trying to remove from the user does not exist")
	}
	delete(u.passwords, hash)
	return nil
}

// PasswordRule is the rule that adds a password, in one word.
func PasswordRule(password string) string { return "#" + hashOf([]byte(password)) }

// key adds a pattern of keys.
func (u *User) key(rule string, bad func(string) error) error {
	if spaced(rule) {
		return bad("Syntax error")
	}
	k := keyPattern{rule[1:], Read | Write}
	if rule[0] == '%' {
		words, pattern, ok := strings.Cut(rule[1:], "~")
		k = keyPattern{pattern: pattern}
		for _, c := range strings.ToUpper(words) {
			switch c {
			case 'R':
				k.access |= Read
			case 'W':
				k.access |= Write
			default:
				return bad("Syntax error")
			}
		}
		if !ok || k.access == 0 {
			return bad("Syntax error")
		}
	}
	if slices.Contains(u.keys, keyPattern{"*", Read | Write}) && k.pattern != "*" {
		return bad("Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns")
	}
	if !slices.Contains(u.keys, k) {
		u.keys = append(u.keys, k)
	}
	return nil
}

// command allows or forbids a command or a category.
func (u *User) command(rule string, bad func(string) error) error {
	allow, name := rule[0] == '+', rule[1:]
	var in func(*redis.Spec) bool
	if category, ok := strings.CutPrefix(name, "@"); ok {
		c, known := redis.CategoryNamed(category)
		if !known {
			return bad("Unknown command or category name in ACL")
		}
		in = func(s *redis.Spec) bool { return s.Categories()&c != 0 }
	} else {
		s := redis.Named(name)
		if s == nil {
			return bad("Unknown command or category name in ACL")
		}
		in = func(x *redis.Spec) bool { return x == s || slices.Contains(s.Subs, x) }
	}
	for _, s := range redis.All() {
		if in(s) {
			u.commands[s.Number] = allow
		}
	}
	u.rules = slices.DeleteFunc(u.rules, func(old string) bool { return old[1:] == name })
	u.rules = append(u.rules, rule)
	return nil
}

// allow allows or forbids all commands.
func (u *User) allow(allow bool) {
	for i := range u.commands {
		u.commands[i] = allow
	}
	if u.rules = []string{"-@all"}; allow {
		u.rules = []string{"+@all"}
	}
}
