package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/cleavekv/cleave/internal/server/glob"
	"github.com/cleavekv/cleave/internal/server/redis"
)

// Access is what is done to a key.
type Access uint8

// The kinds of access.
const (
	Read Access = 1 << iota
	Write
)

// User is somebody with permissions. It does not change.
type User struct {
	Name string
	// IsOn reports whether connections may become this user, and NoPass that any password
	// does.
	IsOn, NoPass bool
	// passwords are SHA-256, as hexadecimal text.
	passwords map[string]bool
	// commands has, by Spec.Number, what it may use, and rules how that was given.
	commands []bool
	rules    []string
	keys     []keyPattern
	channels []string
	// unlimited reports whether the user may do everything.
	unlimited bool
}

type keyPattern struct {
	pattern string
	access  Access
}

// String is the pattern as a rule.
func (k keyPattern) String() string {
	switch k.access {
	case Read:
		return "%R~" + k.pattern
	case Write:
		return "%W~" + k.pattern
	}
	return "~" + k.pattern
}

// newUser returns a user who may do nothing.
func newUser(name string) *User {
	return &User{Name: name, passwords: map[string]bool{}, commands: make([]bool, len(redis.AllSpecs())), rules: []string{"-@all"}}
}

func (u *User) clone() *User {
	c := *u
	c.passwords, c.commands = maps.Clone(u.passwords), slices.Clone(u.commands)
	c.rules, c.keys, c.channels = slices.Clone(u.rules), slices.Clone(u.keys), slices.Clone(u.channels)
	return &c
}

// updateUnlimited notes whether anything is refused.
func (u *User) updateUnlimited() {
	u.unlimited = !slices.Contains(u.commands, false) && slices.Contains(u.keys, keyPattern{"*", Read | Write}) && slices.Contains(u.channels, "*")
}

// IsUnlimited reports whether the user may do everything.
func (u *User) IsUnlimited() bool { return u.unlimited }

// CanRun reports whether the user may use a command.
func (u *User) CanRun(s *redis.Spec) bool { return u.commands[s.Index] }

// CanAccessKey reports whether the user may use a key.
func (u *User) CanAccessKey(key []byte, a Access) bool {
	for _, k := range u.keys {
		if k.access&a == a && glob.Match([]byte(k.pattern), key) {
			return true
		}
	}
	return false
}

// CanAccessChannel reports whether the user may use a channel. A pattern of channels must be one
// that the user was given.
func (u *User) CanAccessChannel(name []byte, pattern bool) bool {
	for _, c := range u.channels {
		if c == "*" || !pattern && glob.Match([]byte(c), name) || pattern && c == string(name) {
			return true
		}
	}
	return false
}

// hashPassword is how a password is kept.
func hashPassword(password []byte) string {
	sum := sha256.Sum256(password)
	return hex.EncodeToString(sum[:])
}

// verifyPassword reports whether a password is right. It takes as long for a wrong one.
func (u *User) verifyPassword(password []byte) bool {
	got, ok := []byte(hashPassword(password)), 0
	for p := range u.passwords {
		ok |= subtle.ConstantTimeCompare(got, []byte(p))
	}
	return u.NoPass || ok == 1
}

// PasswordHashes are the SHA-256 of the passwords, as hexadecimal text.
func (u *User) PasswordHashes() []string { return slices.Sorted(maps.Keys(u.passwords)) }

// Flags are what ACL GETUSER returns about the user as a whole.
func (u *User) Flags() (flags []string) {
	if u.IsOn {
		flags = append(flags, "on")
	} else {
		flags = append(flags, "off")
	}
	if u.NoPass {
		flags = append(flags, "nopass")
	}
	return flags
}

// CommandRules are the rules about commands.
func (u *User) CommandRules() string { return strings.Join(u.rules, " ") }

// KeyRules are the rules about keys.
func (u *User) KeyRules() string {
	var all []string
	for _, k := range u.keys {
		all = append(all, k.String())
	}
	return strings.Join(all, " ")
}

// ChannelRules are the rules about channels.
func (u *User) ChannelRules() string {
	var all []string
	for _, c := range u.channels {
		all = append(all, "&"+c)
	}
	return strings.Join(all, " ")
}

// String is the user as a line of ACL LIST.
func (u *User) String() string { return "user " + u.Name + " " + u.Rules() }

// Rules are the rules that make a user who may do nothing this one.
func (u *User) Rules() string {
	words := u.Flags()
	for _, p := range u.PasswordHashes() {
		words = append(words, "#"+p)
	}
	for _, more := range []string{u.KeyRules(), u.ChannelRules()} {
		if more != "" {
			words = append(words, more)
		}
	}
	if len(u.channels) == 0 {
		words = append(words, "resetchannels")
	}
	return strings.Join(append(words, u.CommandRules()), " ")
}

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
		u.IsOn = lower == "on"
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
		u.setAllCommands(lower == "allcommands" || lower == "+@all")
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
		return u.applyPassword(rule, bad)
	case '~', '%':
		return u.applyKeyPattern(rule, bad)
	case '&':
		if hasSpace(rule) {
			return bad("Syntax error")
		}
		if !slices.Contains(u.channels, rule[1:]) {
			u.channels = append(u.channels, rule[1:])
		}
		return nil
	case '+', '-':
		return u.applyCommand(strings.ToLower(rule), bad)
	}
	return bad("Syntax error")
}

// hasSpace reports whether a rule cannot be one word among others: see User.Rules.
func hasSpace(rule string) bool {
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

// applyPassword adds or removes a password.
func (u *User) applyPassword(rule string, bad func(string) error) error {
	hash := rule[1:]
	if rule[0] == '>' || rule[0] == '<' {
		hash = hashPassword([]byte(rule[1:]))
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
func PasswordRule(password string) string { return "#" + hashPassword([]byte(password)) }

// applyKeyPattern adds a pattern of keys.
func (u *User) applyKeyPattern(rule string, bad func(string) error) error {
	if hasSpace(rule) {
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

// applyCommand allows or forbids a command or a category.
func (u *User) applyCommand(rule string, bad func(string) error) error {
	allow, name := rule[0] == '+', rule[1:]
	var in func(*redis.Spec) bool
	if category, ok := strings.CutPrefix(name, "@"); ok {
		c, known := redis.ParseCategory(category)
		if !known {
			return bad("Unknown command or category name in ACL")
		}
		in = func(s *redis.Spec) bool { return s.Categories()&c != 0 }
	} else {
		s := redis.SpecByName(name)
		if s == nil {
			return bad("Unknown command or category name in ACL")
		}
		in = func(x *redis.Spec) bool { return x == s || slices.Contains(s.Subcommands, x) }
	}
	for _, s := range redis.AllSpecs() {
		if in(s) {
			u.commands[s.Index] = allow
		}
	}
	u.rules = slices.DeleteFunc(u.rules, func(old string) bool { return old[1:] == name })
	u.rules = append(u.rules, rule)
	return nil
}

// setAllCommands allows or forbids all commands.
func (u *User) setAllCommands(allow bool) {
	for i := range u.commands {
		u.commands[i] = allow
	}
	if u.rules = []string{"-@all"}; allow {
		u.rules = []string{"+@all"}
	}
}
