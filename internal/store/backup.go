package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/wal"
)

// Backup writes a copy of the store to dir, which must not exist or be empty,
// while the store works. The copy is everything that was committed up to one
// position, which is returned: not before the position of the log when Backup
// began. It is a directory that [Open] opens; it then becomes a store of its
// own, with its own id and a log that goes on from that position. If Backup
// fails, what it wrote is removed; what a crash leaves of it Open refuses.
//
// Tables are hard links where the file system can, so that a backup to the same
// disk takes little time and room; copy it elsewhere to survive that disk. The
// log is not recycled meanwhile.
func (s *Store) Backup(ctx context.Context, dir string) (wal.Position, error) {
	positions, err := Backups(ctx, []*Store{s}, []string{dir})
	if err != nil {
		return 0, err
	}
	return positions[0], nil
}

// Backups is Backup of several stores, each to its directory: the copies are of one
// moment. If it fails, all that it wrote is removed.
func Backups(ctx context.Context, stores []*Store, dirs []string) (at []wal.Position, err error) {
	copies := make([]*backup, 0, len(stores))
	defer func() {
		for _, b := range copies {
			err = errors.Join(err, b.end(err != nil))
		}
	}()
	for i, s := range stores {
		b, err := s.beginBackup(dirs[i])
		if err != nil {
			return nil, fmt.Errorf("backup to %s: %w", dirs[i], err)
		}
		copies = append(copies, b)
	}
	at = positions(stores)
	for i, b := range copies {
		if plant.Bug("store-backups-one-by-one") {
			at[i] = b.store.Position()
		}
		if err := b.finish(ctx, at[i]); err != nil {
			return nil, fmt.Errorf("backup to %s: %w", dirs[i], err)
		}
	}
	return at, nil
}

// positions returns up to where the logs of stores are visible at one moment.
func positions(stores []*Store) []wal.Position {
	defer still(stores)()
	list := make([]wal.Position, len(stores))
	for i, s := range stores {
		list[i] = s.Position()
	}
	return list
}

// backup is a copy that is being made.
type backup struct {
	store     *Store
	dir, data string
	release   func() // lets the log be recycled
}

// beginBackup copies what is durable in Pebble. The log has the rest, and keeps it
// until end.
func (s *Store) beginBackup(dir string) (b *backup, err error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	fsys := s.dir.fs // files are the owner's alone there too
	b = &backup{store: s, dir: dir, data: fsys.PathJoin(dir, dataDir), release: func() {}}
	names, err := fsys.List(dir)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("%w: name a new or an empty directory", fs.ErrExist)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.leave()
		return nil, err
	}
	if err = makeDir(fsys, dir); err == nil {
		b.release = s.applier.hold()
		err = errors.Join(readError(s.db.Checkpoint(b.data)), fsys.failedAside(fsys.PathDir(b.data), b.data))
	}
	if err != nil {
		return nil, errors.Join(err, b.end(true))
	}
	return b, nil
}

// finish brings the copy to a position, and makes it a store.
func (b *backup) finish(ctx context.Context, pos wal.Position) error {
	if err := b.store.catchUp(ctx, b.data, pos); err != nil {
		return err
	}
	fsys := b.store.dir.fs
	if err := writeDurable(fsys, fsys.PathJoin(b.dir, backupName), nil); err != nil {
		return err
	}
	// FORMAT comes last: without it Open refuses the directory.
	return errors.Join(syncDir(fsys, b.dir), writeFormat(fsys, b.dir, b.store.dir.id))
}

// end gives back what the backup holds, and removes it if it failed.
func (b *backup) end(failed bool) (err error) {
	b.release()
	if failed {
		err = b.store.dir.fs.RemoveAll(b.dir)
	}
	b.store.leave()
	return err
}

// catchUp brings what the checkpoint in data lacks into it, from the log, up to a
// position.
func (s *Store) catchUp(ctx context.Context, data string, until wal.Position) (err error) {
	wake := make(signal, 1)
	h := &health{wake: wake.send}
	o := s.opts
	o.BlockCacheBytes = minCacheBytes
	db, err := openPebble(data, engineOptions(&o, newGuard(o.FS, h, data), h, func() {}), h)
	if err != nil {
		return err
	}
	defer func() {
		if closing := errors.Join(h.err(), db.Close()); err == nil {
			err = closing
		}
	}()
	pos, err := position(db, false)
	if err != nil {
		return err
	}
	c := copier{ctx: ctx, db: db, pos: pos, until: until, batch: db.NewBatch()}
	if _, err = s.feed(pos, c.add); err != nil && !errors.Is(err, errUntil) {
		return errors.Join(err, c.batch.Close())
	}
	c.pos = until
	if err := c.flush(); err != nil {
		return err
	}
	return flushAll(ctx, db, h, wake)
}

// errUntil ends a feed.
var errUntil = errors.New("store: far enough")

// copier applies the feed to a Pebble that nobody else uses.
type copier struct {
	ctx        context.Context
	db         *pebble.DB
	batch      *pebble.Batch
	pos, until wal.Position
	key        []byte
}

// copyBytes is how much of the log is copied in one batch.
const copyBytes = 4 << 20

func (c *copier) add(e Committed) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if e.Pos > c.until {
		return errUntil
	}
	for _, op := range e.Batch.All() {
		c.key = appendKey(c.key[:0], op.Key)
		var err error
		if op.Delete {
			err = c.batch.Delete(c.key, nil)
		} else {
			err = c.batch.Set(c.key, op.Value, nil)
		}
		if err != nil {
			return err
		}
	}
	if c.batch.Len() < copyBytes {
		return nil
	}
	return c.flush()
}

// flush applies what was gathered. The position may be behind the batch for a
// while: the directory is no store before all of it is there.
func (c *copier) flush() error {
	var pos [8]byte
	binary.BigEndian.PutUint64(pos[:], uint64(c.pos))
	err := c.batch.Set(appliedKey, pos[:], nil)
	if err == nil {
		err = c.db.Apply(c.batch, pebble.NoSync)
	}
	c.batch = c.db.NewBatch()
	return err
}
