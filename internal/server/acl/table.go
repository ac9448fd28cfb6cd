package acl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// DefaultUser is the user that connections begin as.
const DefaultUser = "default"

var (
	// ErrWrongPassword means that there is no such user, or the password is not right, or the
	// user is off: the error does not reveal which.
	ErrWrongPassword = errors.New("acl: invalid username-password pair or user is disabled")
	// ErrDefaultUser means that the default user cannot be removed.
	ErrDefaultUser = errors.New("acl: the 'default' user cannot be removed")
)

// Account is a user as it is now. A connection keeps it.
type Account struct{ user atomic.Pointer[User] }

// User returns the newest permissions. Those of a user who was removed are none.
func (a *Account) User() *User { return a.user.Load() }

// Table is all users. Its methods may be called by any goroutine.
type Table struct {
	mu    sync.Mutex
	users map[string]*Account
}

// NewTable returns a table with a default user who may do everything, without a
// password.
func NewTable() *Table {
	t := &Table{users: map[string]*Account{}}
	if err := t.Set(DefaultUser, "on", "nopass", "~*", "&*", "+@all"); err != nil {
		panic(err)
	}
	return t
}

// Set makes or changes a user by rules, all or none.
func (t *Table) Set(name string, rules ...string) error {
	if name == "" {
		return errors.New("acl: the user name is empty")
	}
	if strings.ContainsAny(name, " \x00\r\n\t") {
		return errors.New("acl: Usernames can't contain spaces or null characters")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a, u := t.users[name], newUser(name)
	if a != nil {
		u = a.User().clone()
	}
	for _, rule := range rules {
		if err := u.apply(rule); err != nil {
			return err
		}
	}
	u.updateUnlimited()
	if a == nil {
		a = &Account{}
		t.users[name] = a
	}
	a.user.Store(u)
	return nil
}

// ReplaceAll makes the users those of some rules, by name, all or none. Connections of
// users who are not among them may do nothing any more; the default user stays, as it is
// at first if there are no rules for it.
func (t *Table) ReplaceAll(rules map[string]string) error {
	fresh := NewTable()
	for name, text := range rules {
		if err := fresh.Set(name, append([]string{"reset"}, strings.Fields(text)...)...); err != nil {
			return fmt.Errorf("user %q: %w", name, err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, a := range t.users {
		if fresh.users[name] == nil {
			delete(t.users, name)
			a.user.Store(newUser(name))
		}
	}
	for name, made := range fresh.users {
		if a := t.users[name]; a != nil {
			a.user.Store(made.User())
		} else {
			t.users[name] = made
		}
	}
	return nil
}

// Get returns a user, nil if there is none.
func (t *Table) Get(name string) *User {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.users[name]; a != nil {
		return a.User()
	}
	return nil
}

// Remove removes a user, and reports whether there was one. Connections of it may do
// nothing any more.
func (t *Table) Remove(name string) (bool, error) {
	if name == DefaultUser {
		return false, ErrDefaultUser
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.users[name]
	if a == nil {
		return false, nil
	}
	delete(t.users, name)
	a.user.Store(newUser(name))
	return true, nil
}

// DefaultAccount returns the account that connections begin with.
func (t *Table) DefaultAccount() *Account {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.users[DefaultUser]
}

// Names are the names of all users.
func (t *Table) Names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.users))
}

// Authenticate returns the account of a user who knows a password, or ErrWrong.
func (t *Table) Authenticate(name string, password []byte) (*Account, error) {
	t.mu.Lock()
	a := t.users[name]
	t.mu.Unlock()
	u := newUser(name) // the password of an unknown user is checked too, so that the time does not reveal which users exist
	if a != nil {
		u = a.User()
	}
	if !u.verifyPassword(password) || !u.IsOn {
		return nil, ErrWrongPassword
	}
	return a, nil
}
