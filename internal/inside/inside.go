// Package inside answers one question: how does the server reach what programs that
// import package cleave must not?
//
// The server is made of the same store that a program embeds: it is handed a *cleave.DB,
// and executes commands that have no method there. Package cleave puts the ways in here
// when it is loaded, and nobody but packages of this module can import them.
package inside

import (
	"context"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// Txn is a transaction of package cleave that executes commands.
type Txn interface {
	// Eval evaluates a command about one key on the transaction's state, and keeps one
	// that writes for the commit. If the transaction has to be tried again, all that
	// follows fails too.
	Eval(k *node.Keyspace, at partition.Position, c command.Command, writes bool) command.Reply
	// NowMS is its clock, in Unix milliseconds.
	NowMS() int64
	// Mark begins a request, and Rewind takes back what was written since.
	Mark()
	Rewind()
	// CheckSize refuses a transaction that has written more than one may: it ends it.
	CheckSize() error
}

// KeyEvent is what a command did to a key.
type KeyEvent struct {
	Keyspace string
	Key      []byte
	Event    command.Event
}

// The ways in. A db is a *cleave.DB.
var (
	// NodeOf returns what a DB is made of.
	NodeOf func(db any) *node.Node
	// Update and View are the methods of a DB, for whoever speaks commands.
	Update func(ctx context.Context, db any, f func(Txn)) error
	View   func(ctx context.Context, db any, f func(Txn)) error
	// DeleteAllKeys deletes all keys of a keyspace at one moment, unless there are more than so
	// many: then it deletes none.
	DeleteAllKeys func(ctx context.Context, db any, k *node.Keyspace, most int) (done bool, err error)
	// ScanKeys visits live keys of a span of a keyspace in order, so many if limit is
	// positive, all of one moment. A name is the visitor's to keep; the expiry is 0 for never.
	ScanKeys func(ctx context.Context, db any, k *node.Keyspace, span partition.Span, limit int, visit func(name []byte, kind command.Kind, expiryMS int64) bool) error
	// FollowEvents visits the events of keys that are committed after a cursor, in the order of
	// the commits, until ctx ends. Those that were committed while the node did not record
	// them are missing, see [node.Node.RecordEvents].
	FollowEvents func(ctx context.Context, db any, from string, visit func(KeyEvent)) error
	// OpenWithSmallSegments opens a store, in memory if dir is empty, whose log has small segments.
	// It is for tests: a store fills segments with zeros before it needs them, which
	// under the race detector takes longer than most tests. opts is a cleave.Options. A
	// disk that is not nil takes the place of the machine's.
	OpenWithSmallSegments func(dir string, opts any, disk store.FS) (db any, err error)
)
