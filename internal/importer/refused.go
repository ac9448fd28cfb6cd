package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ofKeys are how the refusals begin that are about a key, or about what it holds. Any
// other may be about the target, and to take one of those for a fault of a key would leave
// out every key behind it.
var ofKeys = []string{
	"WRONGTYPE ",
	"ERR too large",
	"ERR too many commands in MULTI",
	"ERR string exceeds maximum allowed size",
	"ERR invalid expire time",
	"ERR an index refuses the row",
	"ERR another row has the same entry in a unique index",
}

// remedy is what to do about a refusal.
type remedy struct {
	said   string // a part of it
	do     string
	passes bool // by itself, in a while
}

// remedies are those of refusals that are about the target. The first match counts.
var remedies = []remedy{
	{said: "disk is full", do: "make room on its disk"},
	{said: "MISCONF ", do: "see what is wrong with its disk"},
	{said: "no more files", do: "see who has them open there"},
	{said: "OOM ", do: "delete keys there, or raise its maxmemory"},
	{said: "READONLY ", do: "name a server that takes writes"},
	{said: "NOAUTH ", do: "name a user who may write there"},
	{said: "WRONGPASS ", do: "name a user who may write there"},
	{said: "NOPERM ", do: "name a user who may write there"},
	{said: "overloaded", do: "wait until it has less to do", passes: true},
	{said: "BUSY ", do: "wait until it has less to do", passes: true},
	{said: "TXNABORT ", do: "wait until others write less to the same keys", passes: true},
	{said: "LOADING ", do: "wait until it has read its data", passes: true},
	{said: "", do: "see what is wrong with it"},
}

// answer tells that an error is what the server says, and not one of the connection.
func answer(err error) bool {
	var said redis.Error
	return errors.As(err, &said)
}

// ofKey tells that a refusal is about one key, and that others may fare better.
func ofKey(err error) bool {
	return slices.ContainsFunc(ofKeys, func(said string) bool { return strings.HasPrefix(err.Error(), said) })
}

// refusal is an answer of the target that is not about one key.
type refusal struct {
	key string // what was to be written
	err error
	remedy
}

// refused makes a refusal of what was answered to an item.
func refused(i *item, err error) *refusal {
	at := slices.IndexFunc(remedies, func(r remedy) bool { return strings.Contains(err.Error(), r.said) })
	return &refusal{i.name(), err, remedies[at]}
}

// Error has the answer, and what to do.
func (r *refusal) Error() string {
	return fmt.Sprintf("it refused the key %q: %v: %s", r.key, r.err, r.do)
}

// Unwrap returns the answer.
func (r *refusal) Unwrap() error { return r.err }

// passes tells that the target may take the same in a while.
func passes(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.passes
}
