package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/glob"
	"github.com/cleavekv/cleave/internal/redis"
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
	// On tells whether connections may become this user, and NoPass that any password
	// does.
	On, NoPass bool
	// passwords are SHA-256, as hexadecimal text.
	passwords map[string]bool
	// commands tells, by Spec.Number, what it may use, and rules how that was said.
	commands []bool
	rules    []string
	keys     []keyPattern
	channels []string
	// all tells that nothing is refused.
	all bool
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
	return &User{Name: name, passwords: map[string]bool{}, commands: make([]bool, len(redis.All())), rules: []string{"-@all"}}
}

func (u *User) clone() *User {
	c := *u
	c.passwords, c.commands = maps.Clone(u.passwords), slices.Clone(u.commands)
	c.rules, c.keys, c.channels = slices.Clone(u.rules), slices.Clone(u.keys), slices.Clone(u.channels)
	return &c
}

// settle notes whether anything is refused.
func (u *User) settle() {
	u.all = !slices.Contains(u.commands, false) && slices.Contains(u.keys, keyPattern{"*", Read | Write}) && slices.Contains(u.channels, "*")
}

// All tells that nothing is refused.
func (u *User) All() bool { return u.all }

// MayRun tells whether the user may use a command.
func (u *User) MayRun(s *redis.Spec) bool { return u.commands[s.Number] }

// MayKey tells whether the user may use a key.
func (u *User) MayKey(key []byte, a Access) bool {
	for _, k := range u.keys {
		if k.access&a == a && glob.Match([]byte(k.pattern), key) {
			return true
		}
	}
	return false
}

// MayChannel tells whether the user may use a channel. A pattern of channels must be one
// that the user was given.
func (u *User) MayChannel(name []byte, pattern bool) bool {
	for _, c := range u.channels {
		if c == "*" || !pattern && glob.Match([]byte(c), name) || pattern && c == string(name) {
			return true
		}
	}
	return false
}

// hashOf is how a password is kept.
func hashOf(password []byte) string {
	sum := sha256.Sum256(password)
	return hex.EncodeToString(sum[:])
}

// accepts tells whether a password is right. It takes as long for a wrong one.
func (u *User) accepts(password []byte) bool {
	got, ok := []byte(hashOf(password)), 0
	for p := range u.passwords {
		ok |= subtle.ConstantTimeCompare(got, []byte(p))
	}
	return u.NoPass || ok == 1
}

// Passwords are the SHA-256 of the passwords, as hexadecimal text.
func (u *User) Passwords() []string { return slices.Sorted(maps.Keys(u.passwords)) }

// Flags are what ACL GETUSER tells about the user as a whole.
func (u *User) Flags() (flags []string) {
	if u.On {
		flags = append(flags, "on")
	} else {
		flags = append(flags, "off")
	}
	if u.NoPass {
		flags = append(flags, "nopass")
	}
	return flags
}

// Commands are the rules about commands.
func (u *User) Commands() string { return strings.Join(u.rules, " ") }

// Keys are the rules about keys.
func (u *User) Keys() string {
	var all []string
	for _, k := range u.keys {
		all = append(all, k.String())
	}
	return strings.Join(all, " ")
}

// Channels are the rules about channels.
func (u *User) Channels() string {
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
	for _, p := range u.Passwords() {
		words = append(words, "#"+p)
	}
	for _, more := range []string{u.Keys(), u.Channels()} {
		if more != "" {
			words = append(words, more)
		}
	}
	if len(u.channels) == 0 {
		words = append(words, "resetchannels")
	}
	return strings.Join(append(words, u.Commands()), " ")
}
