package cleave

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// DB is an open store. Its methods may be called by any goroutine.
type DB struct {
	engine          *engine.DB
	node            *node.Node               // that of the engine
	defaultKeyspace atomic.Pointer[Keyspace] // the default one
	balancer        *balancer.Balancer       // nil with Options.HeatOff
}

// Open opens the store in a directory, which it makes if there is none. It
// belongs to one open DB at a time.
func Open(dir string, opts Options) (*DB, error) {
	if dir == "" {
		return nil, fmt.Errorf("%w: no directory: name one, or use OpenMemory", ErrOptions)
	}
	return open(dir, opts)
}

// OpenMemory makes a store in memory, which is gone when it is closed. It is
// ordered, transactional and bounded like one on disk.
func OpenMemory(opts Options) (*DB, error) {
	return open("", opts)
}

func open(dir string, opts Options) (*DB, error) {
	no, err := opts.toNodeOptions(dir)
	if err != nil {
		return nil, err
	}
	db, err := openNode(no)
	if err != nil || opts.HeatOff {
		return db, err
	}
	db.balancer, err = balancer.Start(db.node, balancer.Options{Manual: opts.ManualRelief, Log: opts.Logger})
	if err != nil {
		return nil, errors.Join(toPublicError(err), db.Close())
	}
	return db, nil
}

func openNode(o node.Options) (*DB, error) {
	e, err := engine.Open(o)
	if err != nil {
		return nil, toPublicError(err)
	}
	return New(e), nil
}

// Close ends everything that the store runs and waits for it. Commands that are
// being executed are finished, those that come later get ErrClosed. It also
// waits for functions of Update and View and for loops over All, so do not call
// it from one of them. A second call gets ErrClosed, when the first has returned.
func (db *DB) Close() error {
	if db.balancer != nil {
		db.balancer.Close()
	}
	return toPublicError(db.engine.Close())
}

// Default returns the default keyspace, which is of kind Hash.
func (db *DB) Default() *Keyspace {
	if k := db.defaultKeyspace.Load(); k != nil && k.keyspace.CheckOpen() == nil {
		return k
	}
	k, err := db.Keyspace(node.DefaultKeyspace)
	if err != nil {
		panic(err) // every node has it, and it cannot be dropped
	}
	db.defaultKeyspace.Store(k) // another one after a server has emptied it
	return k
}

// Kind is how a keyspace spreads its keys.
type Kind = partition.Kind

// The kinds of keyspaces.
const (
	// Hash spreads keys over slots, those with the same hash tag together.
	Hash = partition.Hash
	// Range keeps keys in the order of their bytes.
	Range = partition.Range
)

// KeyspaceOptions describe a keyspace.
type KeyspaceOptions struct {
	// Name is 1 to 128 printable ASCII characters without spaces.
	Name string
	// Kind is Hash or Range. Default Hash.
	Kind Kind
	// Slots is how many slots a keyspace of kind Hash has: a power of two.
	// Default 16384, as in Redis Cluster, which is also the most.
	Slots int
	// Layout is the declared shape of the keys, in the notation of package key,
	// such as "(region, hour(ts)) | id". Empty for none. It is kept for package
	// table and for tools that decode keys; keys are not checked against it.
	Layout string
}

// OpenKeyspace returns the keyspace of a name, and makes it if there is none. If
// there is one with other options, the error is ErrKeyspaceExists; layouts are
// compared by what they mean.
func (db *DB) OpenKeyspace(ctx context.Context, o KeyspaceOptions) (*Keyspace, error) {
	if err := db.node.CheckOpen(); err != nil {
		return nil, toPublicError(err)
	}
	for {
		k, err := db.Keyspace(o.Name)
		if errors.Is(err, ErrNoKeyspace) {
			k, err = db.CreateKeyspace(ctx, o)
			if errors.Is(err, ErrKeyspaceExists) {
				continue // another caller was faster
			}
		}
		if err == nil && k.Options().withDefaults() != o.withDefaults() {
			return nil, fmt.Errorf("%w with other options: %q has %+v, not %+v", ErrKeyspaceExists, o.Name, k.Options(), o)
		}
		return k, err
	}
}

// withDefaults spells the defaults out, and layouts in their one form: blanks and bars that
// mean the same do not make another keyspace.
func (o KeyspaceOptions) withDefaults() KeyspaceOptions {
	if o.Kind == Hash && o.Slots == 0 {
		o.Slots = hash.Slots
	}
	if l, err := key.ParseLayout(o.Layout); err == nil {
		o.Layout = l.String()
	}
	return o
}

// CreateKeyspace makes a keyspace. If the name is taken the error is
// ErrKeyspaceExists.
func (db *DB) CreateKeyspace(ctx context.Context, o KeyspaceOptions) (*Keyspace, error) {
	if strings.HasPrefix(o.Name, index.KeyspacePrefix) {
		return nil, optionErrorf("keyspace %q: names that begin with %q are those of indexes: use another", o.Name, index.KeyspacePrefix)
	}
	space, err := db.node.CreateKeyspace(ctx, partition.Keyspace{Name: o.Name, Kind: o.Kind, Slots: o.Slots, Layout: o.Layout})
	if err != nil {
		return nil, toPublicError(err)
	}
	return &Keyspace{db: db, keyspace: space}, nil
}

// Keyspace returns the keyspace of a name, or ErrNoKeyspace.
func (db *DB) Keyspace(name string) (*Keyspace, error) {
	space, err := db.node.Keyspace(name)
	if err != nil {
		return nil, toPublicError(err)
	}
	return &Keyspace{db: db, keyspace: space}, nil
}

// Keyspaces returns all keyspaces by name, those of the entries of indexes included,
// whose names begin with "index/".
func (db *DB) Keyspaces() []*Keyspace {
	var all []*Keyspace
	for _, space := range db.node.Keyspaces() {
		all = append(all, &Keyspace{db: db, keyspace: space})
	}
	return all
}

// DropKeyspace removes a keyspace with all its keys, and its indexes. They are gone when it
// returns; the room that they took is given back in the background. The default
// keyspace cannot be dropped.
func (db *DB) DropKeyspace(ctx context.Context, name string) error {
	err := db.engine.DropKeyspace(ctx, name)
	if errors.Is(err, node.ErrDefaultKeyspace) {
		return optionErrorf("the default keyspace cannot be dropped: delete its keys instead")
	}
	return toPublicError(err)
}

// Backup writes a copy of the store to a directory that does not exist or is
// empty, while the store works. The copy is consistent: all that was committed
// up to one moment, the same for all of its stores, and nothing else: a transaction
// is in it as a whole, or not at all. To restore it, open that
// directory, or a copy of it: what is opened is a store then, and a backup no more.
// cleave serve refuses a backup that was not restored by cleave restore, which copies. Where the file system can, its files are links to
// those of the store: copy them elsewhere to survive the disk.
func (db *DB) Backup(ctx context.Context, dir string) error {
	log, began := db.engine.Logger().With("dir", dir), time.Now()
	log.Info("backup begun")
	err := db.node.Backup(ctx, dir)
	if err != nil {
		log.Error("backup failed", "took", time.Since(began), "error", err)
		return toPublicError(err)
	}
	log.Info("backup done", "took", time.Since(began), "bytes", sumFileBytes(dir))
	return nil
}

// sumFileBytes returns the size of all files in a directory, as far as they can be looked at.
func sumFileBytes(dir string) (all int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				all += info.Size()
			}
		}
		return nil
	})
	return all
}

// This file is for the packages of this module, such as the server, that execute commands which have
// no method here. Other programs have nothing to gain from it: they cannot name the engine's type.

// New returns the DB of an engine. Several DBs of an engine are the same store. It is for packages of
// this module that open an engine themselves; programs use [Open].
func New(e *engine.DB) *DB { return &DB{engine: e, node: e.Node()} }

// Engine sets *e to the engine of the DB. It is for packages of this module.
func (db *DB) Engine(e **engine.DB) { *e = db.engine }

// Balancer is for packages of this module, as Engine is: it gives them what relieves hot shards, nil with Options.HeatOff.
func (db *DB) Balancer(b **balancer.Balancer) { *b = db.balancer }

// PublicError makes an error of the engine match its public name, as the methods of DB do. It is for
// packages of this module.
func PublicError(err error) error { return toPublicError(err) }
